"""Operators that compute, and are written for any arguments: the public names of ``aten``."""

from __future__ import annotations

from typing import Final

from tsarchive.policy.risks import Group, Risk

COMPUTING: Final = (
    Group(
        "aten",
        Risk.COMPUTE,
        "works on numbers, strings, lists and dicts, or turns tensors into numbers",
        """
        sorted
        # language: tensor.item() in run/natives/tensor_numbers.py takes one element and
        # no meta tensor; conversions.checked_int bounds the number
        Bool ComplexImplicit Float FloatImplicit Int IntImplicit ScalarImplicit
        # language: in Python: run/natives/conversions.py; overloads with a tensor take
        # its item(), which refuses more than one element
        Complex
        # language: in Python: lists.py, dicts.py, bytestrings.py and builtins.py of
        # run/natives; an index beyond the ends raises
        Delete clear count dict get items keys len pop popitem remove setdefault update
        # language: in Python: run/natives/values.py
        Size
        # language: in Python: run/natives/lists.py
        append extend
        # language: in Python: run/natives/integers.py
        bin factorial hex oct
        # language: in Python: run/natives/tensor_properties.py
        broadcast_shapes
        # language: in Python: run/natives/strings.py
        capitalize chr isalnum isalpha isdigit islower istitle isupper join lower lstrip
        rstrip strip swapcase title upper
        # language: in Python: run/natives/bytestrings.py
        center endswith expandtabs find isdecimal isidentifier isnumeric isprintable isspace
        ljust ord partition replace rfind rindex rjust rpartition rsplit splitlines
        startswith zfill
        # language: Python's math, through run/natives/math_functions.py; the Scalar
        # overloads run in torch, on numbers only
        degrees fabs radians
        # language: in Python: run/natives/integers.py and scalars.py; overloads of an
        # int and a float run in torch, on doubles
        divmod
        # language: in Python: run/natives/integers.py, scalars.py and delegation.py;
        # overloads with a tensor call torch.floor_divide
        floordiv
        # language: in Python: run/natives/formatting.py
        format percentFormat str
        # language: takes no tensor: gamma of a number (register_prim_ops.cpp), or a
        # setting of the process that at::Context and its hooks tell
        gamma
        # language: a method of Python's list
        insert
        # language: list() of Python; strings: run/natives/bytestrings.py
        list
        # language: Python's math, through run/natives/math_functions.py
        mathremainder
        # language: in Python: run/natives/math_functions.py
        modf
        # checked: Pow.cpp refuses negative scalar exponents for integers; Pow.h powi
        # halves the exponent, and answers negative ones without a loop
        pow
        # language: in Python: run/natives/futures.py
        wait
        """
,
    ),
    Group(
        "aten",
        Risk.COMPUTE,
        "computes on tensors, and checks what it is given",
        """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
        adaptive_max_pool2d adaptive_max_pool3d addbmm addbmm_ addmm addmm_ addmv addmv_
        addr addr_ affine_grid_generator argsort argwhere avg_pool1d avg_pool2d avg_pool3d
        baddbmm baddbmm_ bartlett_window batch_norm bilinear binary_cross_entropy
        binary_cross_entropy_with_logits bincount blackman_window block_diag bmm bucketize
        cartesian_prod ccol_indices ccol_indices_copy cdist chain_matmul channel_shuffle
        cholesky cholesky_inverse cholesky_solve coalesce col2im col_indices
        col_indices_copy combinations constant_pad_nd conv1d conv2d conv3d conv_tbc
        conv_transpose1d conv_transpose2d conv_transpose3d convolution convolution_backward
        copy_sparse_to_sparse copy_sparse_to_sparse_ cosine_embedding_loss count_nonzero
        cross cross_entropy_loss crow_indices crow_indices_copy ctc_loss cummax cummin
        cumprod cumprod_ cumsum cumsum_ cumulative_trapezoid dense_dim dequantize det detach
        detach_ detach_copy diag diag_embed diagflat diagonal diagonal_copy diagonal_scatter
        dot einsum embedding_bag embedding_renorm embedding_renorm_ empty_quantized
        fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask
        fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask
        fill_diagonal_ flatten_dense_tensors flip fliplr flipud fractional_max_pool2d
        fractional_max_pool3d frobenius_norm fused_moving_avg_obs_fake_quant geqrf ger glu
        glu_jvp grid_sampler grid_sampler_2d grid_sampler_3d group_norm gru gru_cell
        hamming_window hann_window hinge_embedding_loss histc histogram histogramdd hspmm
        huber_loss im2col index index_add index_add_ index_copy index_copy_ index_fill
        index_fill_ index_put index_put_ index_reduce index_reduce_ index_select indices
        indices_copy inner instance_norm int_repr inverse is_coalesced
        is_non_overlapping_and_dense is_nonzero isin istft kaiser_window kron kthvalue
        l1_loss layer_norm linear log_softmax logcumsumexp logdet lstm lstm_cell lu_solve
        lu_unpack margin_ranking_loss masked_scatter masked_scatter_ masked_select matmul
        matrix_H matrix_exp matrix_power max_pool1d max_pool1d_with_indices max_pool2d
        max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d
        max_pool3d_with_indices max_unpool2d max_unpool3d median meshgrid mm mode mse_loss
        msort multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward mv
        nanmedian nanquantile native_batch_norm native_channel_shuffle native_layer_norm
        native_norm nested_to_padded_tensor nll_loss nll_loss2d nll_loss2d_forward
        nll_loss_forward nll_loss_nd nonzero nonzero_numpy nonzero_static norm
        norm_except_dim nuclear_norm one_hot orgqr ormqr outer output_nr pad pad_sequence
        pairwise_distance pdist pinverse pixel_shuffle pixel_unshuffle poisson_nll_loss
        prelu put put_ q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
        q_scale q_zero_point qr quantile quantize_per_tensor quantize_per_tensor_dynamic
        quantized_gru quantized_lstm reflection_pad1d reflection_pad2d reflection_pad3d
        renorm renorm_ repeat repeat_interleave replication_pad1d replication_pad2d
        replication_pad3d resolve_conj resolve_neg rms_norm rnn_relu rnn_relu_cell rnn_tanh
        rnn_tanh_cell roll row_indices row_indices_copy scaled_dot_product_attention scatter
        scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ searchsorted
        select_copy select_scatter slice_inverse slice_scatter slogdet smm smooth_l1_loss
        soft_margin_loss softmax sort sparse_bsc_tensor sparse_bsr_tensor
        sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor
        sparse_dim sparse_mask sparse_sampled_addmm sspaddmm std std_mean stft svd take
        take_along_dim tensordot to_dense to_padded_tensor to_sparse to_sparse_bsc
        to_sparse_bsr to_sparse_csc to_sparse_csr topk trace triangular_solve tril tril_
        tril_indices triplet_margin_loss triu triu_ triu_indices unflatten_dense_tensors
        unfold unfold_copy unique_consecutive unique_dim unique_dim_consecutive
        upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
        upsample_nearest2d upsample_nearest3d upsample_trilinear3d values values_copy var
        var_mean vdot
        # iterator: UnaryOps.cpp: build_borrowing_unary_op and its kin; sparse forms
        # work on the values; loops over coefficients in Math.h have constant bounds
        abs abs_ acos acos_ acosh acosh_ angle asin asin_ asinh asinh_ atan atan_ atanh
        atanh_ bitwise_not bitwise_not_ ceil ceil_ conj_physical conj_physical_ cos cos_
        cosh cosh_ deg2rad deg2rad_ digamma digamma_ erf erf_ erfc erfc_ erfinv erfinv_ exp
        exp2 exp2_ exp_ expm1 expm1_ floor floor_ frac frac_ i0 i0_ isfinite isinf isnan
        isneginf isposinf lgamma lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_
        logical_not logical_not_ logit logit_ nan_to_num nan_to_num_ neg neg_ positive
        rad2deg rad2deg_ reciprocal reciprocal_ round round_ rsqrt rsqrt_ sgn sgn_ sigmoid
        sigmoid_ sign sign_ signbit sin sin_ sinc sinc_ sinh sinh_ sqrt sqrt_ square square_
        tan tan_ tanh tanh_ trunc trunc_
        # iterator: UnaryOps.cpp: aliases of operators on TensorIterator, such as abs,
        # acos, neg and trunc
        absolute absolute_ arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_
        arctan arctan_ arctanh arctanh_ fix fix_ negative negative_
        # iterator: BinaryOps.cpp: build_borrowing_binary_op and its kin; TensorIterator
        # broadcasts the sizes; sparse forms compare them; loops in Math.h are bounded
        add add_ arctan2 arctan2_ atan2 atan2_ copysign copysign_ eq eq_ fmax fmin ge ge_
        greater greater_ greater_equal greater_equal_ gt gt_ heaviside heaviside_ hypot
        hypot_ igamma igamma_ igammac igammac_ le le_ less less_ less_equal less_equal_
        logaddexp logaddexp2 logical_and logical_and_ logical_or logical_or_ logical_xor
        logical_xor_ lt lt_ maximum minimum mul mul_ multiply multiply_ ne ne_ nextafter
        nextafter_ not_equal not_equal_ rsub sub sub_ subtract subtract_ xlogy xlogy_
        # iterator: PointwiseOps.cpp: TORCH_META(addcdiv), TORCH_META(addcmul):
        # build_ternary_op; addcdiv refuses integers
        addcdiv addcdiv_ addcmul addcmul_
        # view: TensorShape.cpp, LinearAlgebra.cpp: transpose or permute, which wrap
        # their dims (maybe_wrap_dim), and conj
        adjoint mH mT numpy_T
        # view: TensorShape.cpp alias: sizes and strides of self, under the same version
        # counter; lift and lift_fresh give self
        alias lift lift_fresh
        # composite: the view of that name, which checks its arguments, then clone
        # (CompositeViewCopyKernels.cpp, which is generated)
        alias_copy lift_fresh_copy permute_copy squeeze_copy t_copy transpose_copy
        unsqueeze_copy view_as_complex_copy view_as_real_copy
        # iterator: ReduceOps.cpp, ReduceAllOps.cpp, TensorCompare.cpp: make_reduction;
        # zero_numel_check_dims and dim_list_to_bitset check the dims
        all amax amin aminmax any argmax argmin
        # composite: TensorCompare.cpp isclose, isreal: sub, abs, le, mul, imag, eq;
        # negative rtol and atol are refused; allclose: isclose().all()
        allclose isclose isreal
        # guarded: tensor_checks._range: for integers no step of 0, no least distance by
        # -1; RangeUtils.h arange_check_bounds: finite ends
        arange range
        # guarded: Resize.h checkInBoundsForStorage: sizes, strides and offset lie
        # within the storage; tensor_checks._sizes: no size is negative
        as_strided as_strided_copy as_strided_scatter
        # composite: TensorConversions.cpp to: self, or a copy (copy_) into an empty
        # tensor of the same sizes
        as_tensor cpu type_as
        # composite: TensorTransformations.cpp: reshape or unsqueeze
        atleast_1d atleast_2d atleast_3d
        # guarded: the engine compares sizes and dtypes of gradients (validate_outputs);
        # derivative_checks: formulas hold saved indices of their own
        backward get_gradients grad
        # iterator: BinaryOps.cpp: build_borrowing_binary_op, bit by bit; overloads on
        # ints and bools are Python's (run/natives)
        bitwise_and bitwise_and_ bitwise_or bitwise_or_ bitwise_xor bitwise_xor_
        # checked: BinaryOpsKernel.cpp lshift_kernel, rshift_kernel: counts below 0 or
        # beyond the bits have answers of their own; ints: run/natives/integers.py
        bitwise_left_shift bitwise_left_shift_ bitwise_right_shift bitwise_right_shift_
        # view: ExpandUtils.cpp inferExpandGeometry: a size is that of self, or expands
        # a 1; the number of elements must not overflow
        broadcast_tensors expand_as
        # guarded: ExpandUtils.cpp inferExpandGeometry: a size is that of self, or
        # expands a 1; tensor_checks._expanded: none is below -1
        broadcast_to expand expand_copy
        # language: in Python: run/natives/tensor_properties.py
        can_cast device promote_types
        # checked: TensorShape.cpp cat: check_cat_shape_except_dim, maybe_wrap_dim,
        # assert_no_overlap of the out; sparse: cat_sparse_impl compares the sizes
        cat concat concatenate
        # iterator: Activation.cpp: structured kernels on TensorIterator; so are the
        # quantized forms, in quantized/cpu
        celu celu_ elu elu_ gelu gelu_ hardshrink hardsigmoid hardsigmoid_ hardtanh
        hardtanh_ leaky_relu leaky_relu_ mish mish_ relu relu6 relu6_ relu_ selu selu_ silu
        silu_ softplus softshrink threshold threshold_
        # composite: TensorConversions.cpp chalf: to() of complex32
        chalf
        # guarded: tensor_checks._best_scale: float32, no more elements than there are,
        # and bounded steps; guards._with_plain: contiguous data
        choose_qparams_optimized
        # guarded: TensorShape.cpp checks dims and lengths; enumerations._SUB_BYTE: no
        # code holds quint4x2 or quint2x4, whose views overrun
        chunk dsplit hsplit narrow slice split split_with_sizes tensor_split unbind vsplit
        # iterator: TensorCompare.cpp: TORCH_META(clamp) and its kin build a
        # TensorIterator; so does quantized/cpu/qclamp.cpp
        clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_
        # composite: TensorFactories.cpp clone: empty_like, then copy_; sparse forms
        # clone their parts; quantized: quantized_clone in quantized/QTensor.cpp
        clone
        # composite: TensorShape.cpp: cat of tensors that were reshaped; stack:
        # check_stack_inputs asks for equal sizes
        column_stack dstack hstack row_stack stack vstack
        # iterator: TensorFactories.cpp: complex_check_floating, complex_check_dtype,
        # then TensorIterator; numbers: std::polar
        complex polar
        # view: UnaryOps.cpp conj: self.alias() with the conjugate bit set
        conj
        # composite: TensorProperties.cpp contiguous: clone in a memory format, whose
        # rank TensorImpl.h checks; enumerations: the number of the format
        contiguous
        # guarded: tensor_checks._copy: the target is strided or COO; then copy_, whose
        # expand_inplace compares the sizes
        copy
        # checked: Copy.cpp copy_: expand_inplace compares the sizes, TensorIterator
        # copies; sparse and quantized forms compare layout, sizes and scheme
        copy_
        # composite: Correlation.cpp cov checks dimensions, and the sizes, dtypes and
        # signs of weights; then mul, sum and matmul
        corrcoef cov
        # composite: cosine_similarity in Distance.cpp: sum, mul and clamp_min along a
        # dim that wraps; dist: norm of a difference
        cosine_similarity dist
        # composite: to() of a device; a build without CUDA raises
        # (DeviceGuardImplInterface.h getDeviceGuardImpl)
        cuda
        # guarded: the memory of self under another version counter;
        # derivative_checks.SAVED_ARGUMENTS: formulas hold indices of their own
        data
        # checked: ReduceOps.cpp diff_check: order, and dimensions and sizes of prepend
        # and append; then narrow and sub
        diff
        # language: run/natives/tensor_properties.py: an attribute or a method of
        # torch.Tensor that reads none of its memory; a dim wraps
        dim element_size is_complex is_contiguous is_floating_point numel result_type size
        storage_offset stride
        # guarded: tensor_checks.check_rounding: not the least integer by -1 in the
        # dtype of both, nor a sparse tensor that is not coalesced
        div div_ divide divide_ true_divide
        # guarded: the kernel checks each index; derivative_checks.SAVED_ARGUMENTS: the
        # indices of a sparse gradient are copies
        embedding gather
        # guarded: EmptyTensor.cpp: no negative size (check_size_nonnegative), no
        # overflow (computeStorageNbytes); sparse_checks.with_indices: valid indices
        empty new_empty
        # guarded: the sizes of self (TensorFactories.cpp); tensor_checks._nested_dtype:
        # no quantized tensor of a nested one; sparse_checks.with_indices
        empty_like full_like ones_like zeros_like
        # factory: TensorFactories.cpp empty_permuted: each dim once, in range, as many
        # as sizes; then empty and as_strided
        empty_permuted
        # factory: EmptyTensor.cpp computeStorageNbytes: no negative size and no
        # overflow, which negative strides of two or more elements count as
        empty_strided new_empty_strided
        # guarded: ReduceOps.cpp cpu_equal compares the sizes first;
        # packed_checks.SUB_BYTE: no code holds elements smaller than a byte
        equal
        # factory: TensorFactories.cpp eye_out_cpu: no negative n; resize_, zero_, then
        # the min(n, m) elements of the diagonal; guards._writable: a dense out
        eye
        # iterator: Fill.cpp: TensorIterator::nullary_op, or memset of nbytes(); a
        # tensor as value has no dimensions; quantized: copy_
        fill fill_ zero zero_
        # view: TensorShape.cpp reshape: infer_size_dv compares the numbers of elements,
        # computeStride finds the strides; else clone and _unsafe_view
        flatten ravel reshape reshape_as
        # composite: Pow.cpp float_power: pow, of doubles or complex doubles
        float_power float_power_
        # guarded: BinaryOpsKernel.cpp div_floor_kernel: TORCH_CHECK(b != 0);
        # c10::div_floor_integer answers for the least integer by -1
        floor_divide
        # guarded: tensor_checks._whole_quotient: a sparse tensor is coalesced;
        # div_floor_kernel refuses 0, c10::div_floor_integer answers for the least by -1
        floor_divide_
        # checked: BinaryOpsKernel.cpp remainder_kernel, fmod_kernel: TORCH_CHECK(b !=
        # 0), and 0 for the least integer by -1; numbers: run/natives
        fmod fmod_ remainder remainder_
        # iterator: UnaryOps.cpp frexp_out: TensorIterator with two outputs; the
        # exponents are of int32
        frexp
        # factory: EmptyTensor.cpp: no negative size (check_size_nonnegative), no
        # overflow (computeStorageNbytes); then fill_ or zero_
        full new_full new_ones new_zeros ones scalar_tensor zeros
        # checked: Math.h calc_gcd: no divisor is 0, and abs(a) is the first one, so
        # that the least integer is never divided by -1
        gcd gcd_
        # composite: ReduceOps.cpp pre_check_gradient: edge_order, sizes, spacing and
        # dims; then narrow, mul and cat
        gradient
        # iterator: Activation.cpp: hardswish on TensorIterator; log_sigmoid gives the
        # first result of log_sigmoid_forward
        hardswish hardswish_ log_sigmoid
        # iterator: ReduceOps.cpp: make_reduction_from_out_ty; mode, dtype of the out
        # and empty dims (zero_numel_check_dims) are checked
        hash_tensor
        # view: UnaryOps.cpp imag, real: select of view_as_real; real gives a self that
        # is not complex
        imag real
        # language: TensorProperties.cpp, TensorImpl: reads or sets a flag or a field of
        # the tensor, none of its memory
        is_conj is_distributed is_leaf is_neg is_same_size is_signed qscheme requires_grad_
        retain_grad retains_grad
        # language: TensorImpl: sizes, strides and offset, which nested and sparse
        # tensors refuse; enumerations: the number of a memory format
        is_set_to is_strides_like_format sym_is_contiguous sym_numel sym_size
        sym_storage_offset sym_stride
        # language: torch.Tensor.item: Scalar.cpp item refuses more than one element;
        # meta tensors have none
        item
        # composite: Loss.cpp kl_div: sub, mul, xlogy and a reduction; other numbers
        # than those of mean and sum mean none
        kl_div
        # guarded: tensor_checks._multiples: no least integer in the dtype of both
        lcm lcm_
        # composite: BinaryOps.cpp ldexp: mul(x, pow(2.0, other))
        ldexp ldexp_
        # iterator: Lerp.cpp: TORCH_META(lerp_Tensor) compares the dtypes and builds a
        # TensorIterator
        lerp lerp_
        # factory: TensorFactories.cpp, RangeFactories.cpp: no negative steps; the
        # result is resized to them; one step divides by nothing
        linspace logspace
        # iterator: Activation.cpp log_sigmoid_forward_out_cpu: the buffer gets the
        # sizes of self, TensorIterator or contiguous parts; guards._with_plain_outs
        log_sigmoid_forward
        # iterator: ReduceOps.cpp: make_reduction_from_out_ty; dim_list_to_bitset and
        # maybe_wrap_dim check the dims
        logsumexp mean nanmean nansum prod sum
        # iterator: TensorAdvancedIndexing.cpp masked_fill_impl_cpu: a mask of bools,
        # assert_no_partial_overlap, TensorIterator; a value of no dimensions
        masked_fill masked_fill_
        # iterator: ReduceAllOps.cpp max, min: no empty tensor; TensorCompare.cpp:
        # maybe_wrap_dim and zero_numel_check_dims of a dim; else maximum, minimum
        max min
        # view: TensorShape.cpp: maybe_wrap_dims; no dim twice, and as many as there are
        moveaxis movedim permute
        # checked: UnaryOps.cpp mvlgamma_check: dtype, and p of at least 1; then arange,
        # which checks its size, add, lgamma and sum
        mvlgamma mvlgamma_
        # checked: TensorShape.cpp narrow_copy_dense_cpu_out: start, length and dtype;
        # the out is resized; memcpy from contiguous data; guards._with_plain_outs
        narrow_copy
        # guarded: tensor_checks._group_norm: sizes and groups are those of the input
        native_group_norm
        # composite: Memory.cpp: a copy in memory of an accelerator's host; raises where
        # there is no accelerator
        pin_memory
        # guarded: tensor_checks._zeta: no sum from below -65536; else pointwise, on
        # TensorIterator
        polygamma polygamma_
        # checked: Pow.cpp refuses negative scalar exponents for integers; Pow.h powi
        # halves the exponent, and answers negative ones without a loop
        pow_
        # guarded: AffineQuantizer.cpp checkPerChannelParamsSize: a scale for each
        # channel; tensor_checks._per_channel: no qint32 with zero points of floats
        quantize_per_channel
        # language: a method of Python's list
        reverse
        # composite: TensorTransformations.cpp rot90: two different dims; then flip and
        # transpose, k modulo 4
        rot90
        # guarded: TensorShape.cpp select: an index in range; tensor_checks._select: the
        # dims of nested tensors are counted from the front
        select
        # language: in Python: run/natives/control.py
        set_grad_enabled
        # composite: slice, split or unbind in TensorShape.cpp, then clone; a list of
        # outs has as many items as there are parts
        slice_copy split_copy unbind_copy
        # checked: TensorShape.cpp split_with_sizes: no negative length;
        # split_with_sizes_copy_out: as many outs as parts, of their sizes and dtypes
        split_with_sizes_copy
        # view: TensorShape.cpp: inferSqueezeGeometry, inferUnsqueezeGeometry of dims
        # that wrap and stand once; in place: as_strided_ to these
        squeeze squeeze_ unsqueeze unsqueeze_
        # checked: TensorShape.cpp sum_to_size: is_expandable_to(size, self.sizes());
        # then sum and view
        sum_to_size
        # view: TensorShape.cpp transpose: maybe_wrap_dim, then sizes and strides
        # exchanged; t: at most two dimensions
        swapaxes swapdims t transpose
        # guarded: TensorShape.cpp transpose_: maybe_wrap_dim, then strides exchanged;
        # sparse_checks._in_place: only in strided tensors
        swapaxes_ swapdims_ t_ transpose_
        # language: Constraints.cpp sym_constrain_range, TensorCompare.cpp
        # _assert_scalar: compare numbers
        sym_constrain_range sym_constrain_range_for_size
        # factory: run/natives/tensors.py tensor_of_list measures nested lists and
        # compares their lengths; overloads on numbers make one element
        tensor
        # composite: TensorShape.cpp tile: repeat, which fills at::empty of the product
        # through unfold, expand_as and copy_; a product that wraps fails in these
        tile
        # guarded: TensorConversions.cpp to: self or _to_copy; tensor_checks._copied: a
        # copy has a dtype or a device; tensor_checks._nested_dtype
        to
        # guarded: Integration.cpp: slice, select, sub, mul and sum;
        # tensor_checks._not_nested: no nested tensor
        trapezoid trapz
        # iterator: BinaryOps.cpp: alias of div_ without rounding,
        # build_borrowing_binary_float_op; sparse: div_out_sparse_zerodim
        true_divide_
        # view: TensorShape.cpp unflatten: sizes that multiply up to that of the dim
        # (infer_size); then view
        unflatten
        # guarded: TensorShape.cpp checks dims and lengths; parts have version counters
        # of their own: derivative_checks.SAVED_ARGUMENTS; enumerations._SUB_BYTE
        unsafe_chunk unsafe_split unsafe_split_with_sizes
        # composite: TensorFactories.cpp vander: no negative N; an empty tensor of sizes
        # that are checked, then cumprod
        vander
        # guarded: TensorShape.cpp view: infer_size_dv, computeStride;
        # tensor_checks._bytes_view: no bytes of quantized tensors
        view view_copy
        # view: TensorShape.cpp view_as: view(other.size())
        view_as
        # view: ComplexHelper.h view_as_complex: a last dimension of 2, its stride 1,
        # other strides and the offset even; view_as_real doubles strides
        view_as_complex view_as_real
        # iterator: TensorCompare.cpp where_self_out: a condition of bools or bytes, one
        # dtype, TensorIterator; without values: nonzero_numpy
        where
        """
,
    ),
    Group(
        "aten",
        Risk.COMPUTE,
        "a function of torch.linalg, torch.fft or torch.special, which checks what it is given",
        """
        fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn
        fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft
        fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn linalg__powsum
        linalg_cholesky linalg_cholesky_ex linalg_cond linalg_cross linalg_det
        linalg_diagonal linalg_eig linalg_eigh linalg_eigvalsh linalg_householder_product
        linalg_inv linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve
        linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve
        linalg_matmul linalg_matrix_exp linalg_matrix_norm linalg_matrix_power
        linalg_matrix_rank linalg_multi_dot linalg_norm linalg_pinv linalg_qr linalg_slogdet
        linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals
        linalg_tensorinv linalg_tensorsolve linalg_vander linalg_vecdot linalg_vector_norm
        special_log_softmax special_softmax
        # guarded: LinearAlgebraUtils.h squareCheckInputs: square matrices;
        # tensor_checks._eigenvalues: finite elements
        linalg_eigvals
        # iterator: UnaryOps.cpp: build_borrowing_unary_op and its kin; sparse forms
        # work on the values; loops over coefficients in Math.h have constant bounds
        special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0
        special_bessel_y1 special_entr special_erfcx special_i0e special_i1 special_i1e
        special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1
        special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri
        special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
        special_spherical_bessel_j0
        # guarded: tensor_checks._order: an order of at most 65536 bounds the steps of
        # the kernel (Math.h), which has no arrays
        special_chebyshev_polynomial_t special_chebyshev_polynomial_u
        special_chebyshev_polynomial_v special_chebyshev_polynomial_w
        special_hermite_polynomial_h special_hermite_polynomial_he
        special_laguerre_polynomial_l special_legendre_polynomial_p
        special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
        special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w
        # iterator: UnaryOps.cpp, BinaryOps.cpp: aliases of operators on TensorIterator,
        # such as erf, igamma and xlogy; loops in Math.h are bounded
        special_digamma special_erf special_erfc special_erfinv special_exp2 special_expit
        special_expm1 special_gammainc special_gammaincc special_gammaln special_i0
        special_log1p special_logit special_psi special_round special_sinc special_xlogy
        # iterator: ReduceOps.cpp: make_reduction_from_out_ty; dim_list_to_bitset and
        # maybe_wrap_dim check the dims
        special_logsumexp
        # composite: UnaryOps.cpp mvlgamma_check: dtype, and p of at least 1; then
        # arange, which checks its size, add, lgamma and sum
        special_multigammaln
        # composite: UnaryOps.cpp special_ndtr: erf, erfc and where
        special_ndtr
        # guarded: tensor_checks._zeta: no sum from below -65536; else pointwise, on
        # TensorIterator
        special_polygamma special_zeta
        # iterator: BinaryOps.cpp: build_borrowing_binary_op and its kin; TensorIterator
        # broadcasts the sizes; sparse forms compare them; loops in Math.h are bounded
        special_xlog1py
        """
,
    ),
    Group(
        "aten",
        Risk.RANDOMNESS,
        "draws random numbers, of this process or of a generator that it is given",
        """
        alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout
        feature_alpha_dropout_ feature_dropout feature_dropout_ log_normal log_normal_
        multinomial native_dropout normal normal_ normal_functional rrelu_with_noise
        rrelu_with_noise_ rrelu_with_noise_functional
        # language: register_ops_utils.cpp make_generator_for_device refuses other
        # devices; seeds are read and set under the generator's lock
        Generator initial_seed seed
        # iterator: Distributions.cpp: TensorIterator over self; p is expanded to its
        # sizes, and lies in [0, 1]; MKL gets numel() of contiguous data
        bernoulli bernoulli_
        # guarded: Distributions.cpp binomial: TensorIterator; tensor_checks._binomial:
        # no count of nan
        binomial
        # iterator: DistributionTemplates.h: borrowing_nullary_op over self, without
        # overlap in itself; parameters are checked
        cauchy cauchy_ exponential exponential_ geometric geometric_ uniform uniform_
        # iterator: Distributions.cpp poisson: TensorIterator over self; sample_poisson
        # refuses negative rates
        poisson
        # factory: TensorFactories.cpp: an empty tensor of sizes that are checked, then
        # uniform_ or normal_
        rand randn
        # guarded: the sizes of self (TensorFactories.cpp); tensor_checks._nested_dtype:
        # no quantized tensor of a nested one; sparse_checks.with_indices
        rand_like randint_like randn_like
        # checked: an empty tensor (TensorFactories.cpp), then random_;
        # DistributionTemplates.h random_from_to_impl: from < to, in range of the dtype
        randint
        # guarded: DistributionTemplates.h: from lies in the range of the dtype;
        # tensor_checks._random_from: there are floats above it
        random random_
        # checked: TensorFactories.cpp randperm: no negative n, none beyond the
        # precision of the dtype; exchanges elements i and i + random % (n - i)
        randperm
        # composite: Activation.cpp rrelu: lower <= upper; calls rrelu_with_noise with
        # noise that is contiguous and of the sizes of self
        rrelu rrelu_
        """
,
    ),
    Group(
        "aten",
        Risk.PROCESS_INFORMATION,
        "tells how this process or this thread is set, or where a value lies",
        """
        # language: TensorProperties.cpp, TensorImpl: reads or sets a flag or a field of
        # the tensor, none of its memory
        cudnn_is_acceptable get_device is_inference is_pinned
        # language: takes no tensor: gamma of a number (register_prim_ops.cpp), or a
        # setting of the process that at::Context and its hooks tell
        get_autocast_dtype is_autocast_cpu_enabled is_autocast_enabled is_vulkan_available
        # language: in Python: run/natives/control.py
        has_torch_function is_scripting
        # language: in Python: run/natives/hashing.py
        hash
        # language: torch.is_grad_enabled, which reads a flag of the thread
        is_grad_enabled
        """,
    ),
)
