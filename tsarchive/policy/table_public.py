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
        # language: tsarchive/run/natives/tensor_numbers.py and conversions.py:
        # tensor.item() (torch refuses more than one element and meta), then checked_int
        Bool ComplexImplicit Float FloatImplicit Int IntImplicit ScalarImplicit
        # language: natives/conversions.py for numbers; overloads with a Tensor run
        # register_prim_ops: a.item().toDouble (item refuses more than one element,
        # checked by DefaultCPU _local_scalar_dense)
        Complex
        # language: natives/lists.py, dicts.py, bytestrings.py, builtins.py, strings.py:
        # lists, dicts and strings of Python; indices are those of Python, IndexError
        # beyond them
        Delete clear count dict get items keys len pop popitem remove setdefault update
        # language: implemented in Python: run/natives/values
        Size
        # language: implemented in Python: run/natives/lists
        append extend
        # language: implemented in Python: run/natives/integers
        bin factorial hex oct
        # language: implemented in Python: run/natives/tensor_properties
        broadcast_shapes
        # language: implemented in Python: run/natives/strings
        capitalize chr isalnum isalpha isdigit islower istitle isupper join lower lstrip
        rstrip strip swapcase title upper
        # language: implemented in Python: run/natives/bytestrings
        center endswith expandtabs find isdecimal isidentifier isnumeric isprintable isspace
        ljust ord partition replace rfind rindex rjust rpartition rsplit splitlines
        startswith zfill
        # language: implemented in Python: run/natives/delegation; overloads ['Scalar']
        # run in torch on numbers only, edge integers (0, -1, INT64_MIN/MAX), nan and inf
        # tried: no trap, no hang
        degrees fabs radians
        # language: implemented in Python: run/natives/integers, run/natives/scalars;
        # overloads ['int_float', 'float_int'] run in torch on numbers only, edge integers
        # (0, -1, INT64_MIN/MAX), nan and inf tried: no trap, no hang
        divmod
        # language: implemented in Python: run/natives/delegation, run/natives/integers,
        # run/natives/scalars, tsarchive.run.natives (builtin of Python or delegate)
        floordiv
        # language: implemented in Python: run/natives/formatting
        format percentFormat str
        # language: torch's own: register_special_ops.cpp/register_prim_ops: DataType-like
        # functions on numbers and strings (no tensor memory)
        gamma
        # language: implemented in Python: tsarchive.run.natives (builtin of Python or
        # delegate)
        insert
        # language: implemented in Python: run/natives/bytestrings, tsarchive.run.natives
        # (builtin of Python or delegate)
        list
        # language: implemented in Python: run/natives/delegation
        mathremainder
        # language: implemented in Python: run/natives/math_functions
        modf
        # checked: Pow.cpp/PowKernel.cpp: integers `TORCH_CHECK(!(isIntegralType(base) &&
        # exp < 0), "Integers to negative integer powers are not allowed.")` for scalar
        # exponents; tensors: Pow.h powi, halves the exponent as unsigned steps, negative
        # ones give 1, -1 or 0. All dtypes and edge exponents incl. wrapping scalars: no
        # trap, no hang. ...
        pow
        # language: implemented in Python: run/natives/futures
        wait
        """,
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
        # iterator: UnaryOps.cpp: CREATE_UNARY_META_FUNC / unary_op_impl(_float)_out,
        # build_borrowing_unary(_float)_op; tables of coefficients in Math.h are walked by
        # constant bounds, no index from data (erfcx: switch with default); layouts:
        # sparse forms run on values (SparseUnaryOps.cpp, SparseCsrTensorMath.cpp),
        # round.decimals pow(10, ...
        abs abs_ acos acos_ acosh acosh_ angle asin asin_ asinh asinh_ atan atan_ atanh
        atanh_ bitwise_not bitwise_not_ ceil ceil_ conj_physical conj_physical_ cos cos_
        cosh cosh_ deg2rad deg2rad_ digamma digamma_ erf erf_ erfc erfc_ erfinv erfinv_ exp
        exp2 exp2_ exp_ expm1 expm1_ floor floor_ frac frac_ i0 i0_ isfinite isinf isnan
        isneginf isposinf lgamma lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_
        logical_not logical_not_ logit logit_ nan_to_num nan_to_num_ neg neg_ positive
        rad2deg rad2deg_ reciprocal reciprocal_ round round_ rsqrt rsqrt_ sgn sgn_ sigmoid
        sigmoid_ sign sign_ signbit sin sin_ sinc sinc_ sinh sinh_ sqrt sqrt_ square square_
        tan tan_ tanh tanh_ trunc trunc_
        # iterator: UnaryOps.cpp: alias of abs/acos/acosh/asin/asinh/atan/atanh/neg/trunc:
        # build_unary_op
        absolute absolute_ arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_
        arctan arctan_ arctanh arctanh_ fix fix_ negative negative_
        # iterator: BinaryOps.cpp: TORCH_META build_borrowing_binary(_float)_op /
        # comparison_op, TensorIterator promotes and checks sizes; igamma(c): loops end at
        # MAXITER (Math.h); sparse add/sub/mul: SparseTensorMath.cpp /
        # SparseCsrTensorMath.cpp / SparseBinaryOpIntersection, `TORCH_CHECK sizes`,
        # indices validated when made (sparse_checks). ...
        add add_ atan2 atan2_ copysign copysign_ eq eq_ ge ge_ gt gt_ heaviside heaviside_
        hypot hypot_ igamma igamma_ igammac igammac_ le le_ logaddexp logaddexp2 logical_and
        logical_and_ logical_or logical_or_ logical_xor logical_xor_ lt lt_ mul mul_ ne ne_
        nextafter nextafter_ rsub sub sub_ xlogy xlogy_
        # iterator: PointwiseOps.cpp: addcdiv/addcmul TORCH_META build_ternary_op; addcdiv
        # on integers: TORCH_CHECK("Integer division with addcdiv is no longer supported")
        addcdiv addcdiv_ addcmul addcmul_
        # view: LinearAlgebra/TensorShape.cpp: transpose(-2,-1) / permute (maybe_wrap_dim)
        # and conj
        adjoint mH mT numpy_T
        # view: TensorShape.cpp alias / detach: sizes and strides of self; an alias shares
        # the version counter
        alias lift lift_fresh
        # composite: CompositeViewCopyKernels.cpp: the view, then clone()/copy_; sizes by
        # the view; as_strided etc. check in bounds
        alias_copy lift_fresh_copy permute_copy squeeze_copy t_copy transpose_copy
        unsqueeze_copy view_as_complex_copy view_as_real_copy
        # iterator: ReduceAllOps.cpp / TensorCompare.cpp: structured, make_reduction /
        # zero_numel_check_dims; ran with 0 elements: "Expected reduction dim ... non-zero
        # size", "dim 0 appears multiple times" (dim_list_to_bitset)
        all amax amin aminmax any argmax argmin
        # composite: TensorCompare.cpp: isclose: sub, abs, le, mul (allclose:
        # .all().item()); rtol/atol negative refused
        allclose isclose isreal
        # guarded: tensor_checks._range (step 0, INT64_MIN with step -1; wrapped distance;
        # NaN/inf go to torch: "unsupported range"). Sizes: RangeFactories.cpp TORCH_CHECK
        # size in int64; at::empty refuses what has no memory. Known hole being mended
        arange range
        # iterator: BinaryOps.cpp: atan2 (build_borrowing_binary_float_op)
        arctan2 arctan2_
        # guarded: Resize.h setStrided: checkInBoundsForStorage;
        # tsarchive/run/tensor_checks.py _sizes: none is negative
        as_strided as_strided_copy as_strided_scatter
        # composite: TensorConversions.cpp: to(...) of a dtype or of the options of
        # another tensor, with no memory format: sizes of self, copy_ (nested to quantized
        # without a memory format is refused: "empty_strided not supported on quantized
        # tensors", ran)
        as_tensor cpu type_as
        # composite: TensorTransformations.cpp: reshape / unsqueeze
        atleast_1d atleast_2d atleast_3d
        # guarded: the engine checks sizes and dtypes of gradients (validate_outputs:
        # "invalid gradient"); tsarchive/run/derivative_checks.py : formulas that trust
        # saved indices have copies of them
        backward get_gradients grad
        # iterator: BinaryOps.cpp build_borrowing_binary_op; BinaryOpsKernel.cpp
        # bitwise_*_kernel, logical bit operations. Overloads on ints/bools: run/natives
        bitwise_and bitwise_and_ bitwise_or bitwise_or_ bitwise_xor bitwise_xor_
        # checked: BinaryOpsKernel.cpp lshift_kernel/rshift_kernel: `if ((b < 0) || (b >=
        # bits)) return 0` (rshift: max_shift), no count reaches the machine out of range;
        # float base: multiplied by pow(2, other). All dtypes x edge counts: no fault.
        # Overloads on ints: run/natives/integers.py
        bitwise_left_shift bitwise_left_shift_ bitwise_right_shift bitwise_right_shift_
        # view: ExpandUtils.cpp inferExpandGeometry_dimvector: "expanded size must match
        # the existing size", numel overflow checked ("numel: integer multiplication
        # overflow": ran 2**32x2**32, 2**62). Negative sizes beside a 0 pass:
        # expand(zeros(0),[-5,0]) has shape (-5,0), no fault found. On quint4x2/quint2x4:
        # no offset, but int_repr of the ...
        broadcast_tensors expand_as
        # guarded: ExpandUtils.cpp inferExpandGeometry: "expanded size must match";
        # tsarchive/run/tensor_checks.py _expanded: no size below -1
        broadcast_to expand expand_copy
        # language: implemented in Python: run/natives/tensor_properties
        can_cast device promote_types
        # checked: TensorShape.cpp cat precompute_out_type/meta:
        # check_cat_shape_except_dim "Sizes of tensors must match except in dimension",
        # maybe_wrap_dim, assert_no_overlap(out) ("some elements of the input tensor and
        # the written-to tensor": ran), canCast to out; legacy 1-D empties are skipped.
        # Sparse: cat_sparse_impl "All tensors must ...
        cat concat concatenate
        # iterator: Activation.cpp structured (elu, leaky_relu, softplus, softshrink,
        # hardshrink, threshold, gelu: `approximate argument must be either none or tanh`,
        # silu, mish, hardsigmoid ...): build_unary_op / TensorIterator; oneDNN path of
        # gelu only for dense float inputs; quantized forms: ao quantized kernels on
        # TensorIterator, per tensor ...
        celu celu_ elu elu_ gelu gelu_ hardshrink hardsigmoid hardsigmoid_ hardtanh
        hardtanh_ leaky_relu leaky_relu_ mish mish_ relu relu6 relu6_ relu_ selu selu_ silu
        silu_ softplus softshrink threshold threshold_
        # composite: TensorConversions.cpp chalf: to(complex32, memory_format); the dtype
        # is fixed (nested, coo, quantized ran)
        chalf
        # guarded: tsarchive/run/tensor_checks.py _best_scale, on contiguous data: as many
        # elements and steps as there are
        choose_qparams_optimized
        # guarded: Closed in the working tree of now (not by me; uncommitted or new):
        # enumerations._SUB_BYTE refuses the numbers of quint4x2/quint2x4 for every dtype
        # argument, packed_checks refuses to unpack such rows, torchscript/tensors keeps
        # loaded ones as SubByteRows: archive code gets no such tensor (sample refused
        # when run again); left: ...
        chunk split split_with_sizes tensor_split
        # iterator: TensorCompare.cpp: clamp TORCH_META (build_output from min and max;
        # `At least one of 'min' or 'max' must not be None`), clamp.Tensor via ternary
        # iterator, clamp_max/min: same; quantized: qclamp.cpp per tensor affine (q_scale
        # asserts it) with TensorIterator
        clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_
        # composite: TensorFactories.cpp clone: empty_like / empty_strided + copy_
        # (TensorIterator). Sparse: _sparse_coo_tensor_with_dims + copy_into_sparse;
        # compressed: clones the three members; quantized: QTensor.cpp quantized_clone
        # (quint4x2 and quint2x4 tested under guard pages: no fault; other quantizers
        # TORCH_CHECK); memory_format checked ...
        clone
        # composite: TensorShape.cpp: cat of unsqueezed/atleast tensors; stack:
        # check_stack_inputs "stack expects each tensor to be equal size"
        column_stack dstack hstack row_stack stack vstack
        # iterator: TensorFactories.cpp complex/polar: TensorIterator, "Expected both
        # inputs to be ..."; numbers: std::polar
        complex polar
        # view: UnaryOps.cpp/TensorMethods: self.alias() with the conjugate bit; sizes are
        # those of self
        conj
        # composite: TensorProperties/TensorConversions.cpp contiguous: clone with a
        # memory format; rank 4/5 checked ("required rank 4 tensor to use channels_last");
        # numbers of formats by run/enumerations
        contiguous
        # guarded: tensor_checks._copy: target strided or COO (csr: Copy.cpp copy()
        # segfaulted, ran -11 bare); else expand_inplace + copy_ (sizes "must match")
        copy
        # checked: Copy.cpp copy_: expand_inplace ("must match"), TensorIterator; sparse:
        # copy_sparse_to_sparse_; compressed: "same layout", "only sparse compressed
        # tensors with the same number of specified elements", sizes; quantized: "only
        # works with same qscheme", dtype, "Quantized copy only works with kFloat as
        # source"; scales of another ...
        copy_
        # composite: Correlation.cpp: cov checks dims <= 2, fweights/aweights dims, dtype,
        # "same numel", "cannot be negative"; then mul, sum, matmul
        corrcoef cov
        # composite: Distance.cpp: sum/norm/mul/clamp_min; dims wrapped; dist: sub + norm
        cosine_similarity dist
        # composite: TensorConversions: cuda is not there: torch raises (no device)
        cuda
        # guarded: Closed in the working tree of now (not by me; uncommitted or new):
        # derivative_checks SAVED_ARGUMENTS / SAVED_FOR_SPARSE and cloned integer results:
        # saved tensors are nobody else's (all samples ran again: exit 0, gradients
        # right). Bare torch is UNSAFE: TensorMethods variable_data: same storage, version
        # counter of its own. An ...
        data
        # checked: ReduceOps.cpp diff: "order must be non-negative", n capped by the size,
        # prepend/append dims checked; narrow and sub
        diff
        # language: attribute or method of torch.Tensor itself (tensor_properties.py):
        # sizes, strides, element size, dim, numel, dtype; a dim wraps
        dim element_size is_complex is_contiguous is_floating_point numel result_type size
        storage_offset stride
        # guarded: tsarchive/run/tensor_checks.py check_rounding: neither the least
        # integer by -1 in the dtype of both, nor a sparse tensor that is not coalesced
        div div_ divide divide_ true_divide
        # guarded: Closed in the working tree of now (not by me; uncommitted or new):
        # enumerations._SUB_BYTE refuses the numbers of quint4x2/quint2x4 for every dtype
        # argument, packed_checks refuses to unpack such rows, torchscript/tensors keeps
        # loaded ones as SubByteRows: archive code gets no such tensor (sample refused
        # when run again); left: ...
        dsplit hsplit vsplit
        # guarded: the kernel checks each index ("index out of range");
        # tsarchive/run/derivative_checks.py SAVED_FOR_SPARSE: a sparse gradient has
        # indices of its own
        embedding gather
        # guarded: EmptyTensor.cpp: computeStorageNbytes* ("Storage size calculation
        # overflowed"), check_size_nonnegative, safe_compute_numel ("numel: integer
        # multiplication overflow") - ran 2**40x2**40x0, 2**32x2**32, 2**61+1 doubles, -3;
        # sub-byte dtypes allot whole bytes but quint4x2/quint2x4; compressed layouts come
        # with row indices of ...
        empty new_empty
        # guarded: TensorFactories.cpp: sizes are those of self, checked by
        # computeStorageNbytes; tsarchive/run/tensor_checks.py _nested_dtype,
        # sparse_checks.py with_indices
        empty_like full_like ones_like zeros_like
        # factory: TensorFactories.cpp empty_permuted: "Duplicate dim not allowed",
        # "Dimension out of range", length of the layout; then empty + as_strided of the
        # same sizes
        empty_permuted
        # factory: EmptyTensor.cpp: computeStorageNbytes* ("Storage size calculation
        # overflowed"), check_size_nonnegative, safe_compute_numel ("numel: integer
        # multiplication overflow") - ran 2**40x2**40x0, 2**32x2**32, 2**61+1 doubles, -3;
        # sub-byte dtypes allot whole bytes but quint4x2/quint2x4; negative strides: only
        # beside sizes 1 or 0, ...
        empty_strided new_empty_strided
        # guarded: ReduceOps.cpp cpu_equal: sizes are compared first; tensors of several
        # elements a byte, whose views begin beyond their memory, are never code's
        # (tsarchive/run/packed_checks.py SUB_BYTE)
        equal
        # factory: TensorFactories.cpp eye_out_cpu: "n must be greater or equal to 0",
        # resize_ (overflow checked), zero_, result[i*(stride0+stride1)] for i < min(n,m);
        # a sparse or quantized out: guards._writable refuses
        eye
        # iterator: Fill.cpp fill_out / zero_: TensorIterator::nullary_op / memset of
        # nbytes for dense; value tensor must be 0-dim; quantized fill: copy_ of an
        # expanded float
        fill fill_ zero zero_
        # view: TensorShape.cpp: infer_size_dv + computeStride (view of a contiguous copy
        # or _unsafe_view of a clone); "shape ... is invalid for input of size", product
        # overflow: "numel: integer multiplication overflow"
        flatten ravel reshape reshape_as
        # composite: Pow.cpp float_power: promotes to double/complex double, ends in pow;
        # no integer path
        float_power float_power_
        # guarded: known hole INT_MIN // -1, being mended in tensor_checks.py; zero
        # divisor: BinaryOpsKernel.cpp TORCH_CHECK(b != 0, "ZeroDivisionError"); rest:
        # TensorIterator
        floor_divide
        # guarded: tsarchive/run/tensor_checks.py _whole_quotient: no sparse tensor that
        # is not coalesced; BinaryOpsKernel.cpp div_floor_kernel: the least integer and
        # zero
        floor_divide_
        # iterator: BinaryOps.cpp: TORCH_META maximum/minimum/fmax/fmin,
        # build_borrowing_binary_op
        fmax fmin maximum minimum
        # checked: BinaryOpsKernel.cpp remainder_kernel/fmod_kernel: `TORCH_CHECK(b != 0,
        # "ZeroDivisionError")`; least % -1 gives 0 in 2.13 (measured in int8..int64,
        # default/avx2/avx512 kernels, scalars that wrap, 0-dim, in place, Scalar_Tensor);
        # overloads on numbers: run/natives/scalars.py
        fmod fmod_ remainder remainder_
        # iterator: UnaryOps.cpp frexp_out: TensorIteratorConfig with two outputs;
        # exponent int32 checked (`expects exponent to have int dtype`)
        frexp
        # factory: EmptyTensor.cpp: computeStorageNbytes* ("Storage size calculation
        # overflowed"), check_size_nonnegative, safe_compute_numel ("numel: integer
        # multiplication overflow") - ran 2**40x2**40x0, 2**32x2**32, 2**61+1 doubles, -3;
        # sub-byte dtypes allot whole bytes but quint4x2/quint2x4; then fill_ (value
        # converted: "cannot be ...
        full new_full new_ones new_zeros ones scalar_tensor zeros
        # checked: BinaryOps.cpp: gcd/TORCH_META borrowing binary op; Math.h calc_gcd
        # (2.13) `while (a != 0) { c = a; a = b % a; b = c; }`: the divisor is never 0,
        # and least % -1 cannot come up since the first divisor is abs(a) and the least
        # integer is a dividend only with divisors from abs(b) on; 21,636 pairs of edge
        # values in all dtypes: no trap
        gcd gcd_
        # composite: ReduceOps/TensorShape gradient: "edge_order=1 and edge_order=2",
        # "expected each dimension size to be at least edge_order+1", lengths of spacing
        # against dim ("same length"), spacing of one dimension, dims by
        # dim_list_to_bitset; then narrow, mul, cat
        gradient
        # iterator: BinaryOps.cpp / Comparison: aliases of gt/ge/lt/le/ne/mul/sub:
        # build_borrowing_comparison_op / build_borrowing_binary_op
        greater greater_ greater_equal greater_equal_ less less_ less_equal less_equal_
        multiply multiply_ not_equal not_equal_ subtract subtract_
        # iterator: PointwiseOps/Activation.cpp: structured unary TensorIterator
        hardswish hardswish_ log_sigmoid
        # iterator: ReduceOps.cpp: hash_tensor_out -> make_reduction_from_out_ty;
        # TORCH_CHECK "Unknown hash_tensor mode", "Expected result to be of dtype uint64",
        # zero_numel_check_dims (all seen on 2.13)
        hash_tensor
        # view: ComplexHelper.h view_as_real + select: imag of a conjugated tensor is a
        # negated view; sizes of self
        imag real
        # language: TensorProperties: a bit of the key set / a field of the TensorImpl
        is_conj is_distributed is_leaf is_neg is_same_size is_signed qscheme requires_grad_
        retain_grad retains_grad
        # language: TensorProperties.cpp / TensorImpl: numbers of sizes and strides
        # (nested and sparse: torch raises); memory formats by run/enumerations
        is_set_to is_strides_like_format sym_is_contiguous sym_numel sym_size
        sym_storage_offset sym_stride
        # language: natives item: torch.Tensor.item - "a Tensor with N elements cannot be
        # converted to Scalar", meta refused; NaN stays a float
        item
        # composite: Loss.cpp kl_div: sub, mul, xlogy, reduction numbers other than 1 and
        # 2 mean none
        kl_div
        # guarded: tsarchive/run/tensor_checks.py _multiples: no least integer in the
        # dtype of both
        lcm lcm_
        # composite: ldexp: mul(x, pow(2.0, other)) (BinaryOps.cpp: ldexp)
        ldexp ldexp_
        # iterator: Lerp.cpp: TORCH_META(lerp_Tensor): dtypes `expected dtype ... for
        # end/weight`, TensorIterator; lerp kernels pointwise
        lerp lerp_
        # factory: RangeFactories.cpp: "number of steps must be non-negative", resize_ to
        # steps; step = (end-start)/(steps-1) in double for integers, steps 0 and 1 apart;
        # ends converted ("cannot be converted to type", ran NaN/1e308)
        linspace logspace
        # iterator: Activation.cpp log_sigmoid_forward_out_cpu: buffer is resized to self,
        # contiguous parts; non-contiguous self goes through contiguous() and
        # TensorIterator; out tensors plain by guards
        log_sigmoid_forward
        # iterator: ReduceOps.cpp: make_reduction_from_out_ty / meta::resize_reduction;
        # dims by dim_list_to_bitset ("appears multiple times in the list of dims") and
        # maybe_wrap_dim
        logsumexp mean nanmean nansum prod sum
        # iterator: TensorAdvancedIndexing.cpp masked_fill_impl_cpu: mask `masked_fill_
        # only supports boolean masks`, value 0-dim `only supports a 0-dimensional value
        # tensor`, resize_outputs(false), assert_no_partial_overlap, TensorIterator;
        # quantized: masked_fill_kernel_quantized on the same iterator
        masked_fill masked_fill_
        # iterator: TensorCompare.cpp/ReduceAllOps.cpp: max()/min()
        # `TORCH_CHECK(self.numel() > 0, ...)`, TensorIterator reduction; max.dim: meta
        # max: maybe_wrap_dim, zero_numel_check_dims, out resized by structured kernel,
        # kernel compare_base_kernel on strides of TensorIterator; .other: maximum;
        # quantized: int_repr (quantized max.dim: per ...
        max min
        # view: TensorShape.cpp movedim/permute: "repeated dim", "duplicate dims are not
        # allowed", maybe_wrap_dims, lengths
        moveaxis movedim permute
        # checked: UnaryOps.cpp mvlgamma_check: dtype and p >= 1 checked; then
        # at::arange(-p/2 + 0.5, ...) whose size arange checks (p = INT64_MAX, 2**62,
        # 2**40: clean errors of memory), add, lgamma, sum. p decides over memory (4 bytes
        # * p * numel): 2**31 takes 8 GB and more, the budget of bytes counts it on
        # shadows
        mvlgamma mvlgamma_
        # guarded: Closed in the working tree of now (not by me; uncommitted or new):
        # enumerations._SUB_BYTE refuses the numbers of quint4x2/quint2x4 for every dtype
        # argument, packed_checks refuses to unpack such rows, torchscript/tensors keeps
        # loaded ones as SubByteRows: archive code gets no such tensor (sample refused
        # when run again); left: ...
        narrow
        # checked: NarrowCopy: TensorShape.cpp narrow_copy_dense_cpu_out: "start out of
        # range", "start (..) + length (..) exceeds dimension size", dtype equal, resize;
        # memcpy of unit*length bytes from expect_contiguous; out made plain by
        # guards._with_plain_outs; sparse: "Invalid range to narrow" and numel overflow;
        # quint4x2: copy not implemented
        narrow_copy
        # guarded: tsarchive/run/tensor_checks.py _group_norm: sizes and groups are those
        # of the input
        native_group_norm
        # composite: Memory.cpp: CPU builds: "Cannot access accelerator device when none
        # is available"; else a copy
        pin_memory
        # guarded: tsarchive/run/tensor_checks.py _zeta: no sum of endless steps; else as
        # TensorIterator has it
        polygamma polygamma_
        # checked: Pow.cpp/PowKernel.cpp: integers `TORCH_CHECK(!(isIntegralType(base) &&
        # exp < 0), "Integers to negative integer powers are not allowed.")` for scalar
        # exponents; tensors: Pow.h powi, halves the exponent as unsigned steps, negative
        # ones give 1, -1 or 0. All dtypes and edge exponents incl. wrapping scalars: no
        # trap, no hang. ...
        pow_
        # guarded: Quantizer.cpp: sizes and axis of scales; tsarchive/run/tensor_checks.py
        # _per_channel: no qint32 with zero points of floats
        quantize_per_channel
        # language: implemented in Python: tsarchive.run.natives (builtin of Python or
        # delegate)
        reverse
        # composite: TensorTransformations.cpp rot90: "expected total rotation dims == 2",
        # "different", flip + transpose; k modulo 4
        rot90
        # guarded: TensorShape.cpp select: "index out of range";
        # tsarchive/run/tensor_checks.py _select: nested dimensions from the front
        select
        # language: implemented in Python: run/natives/control
        set_grad_enabled
        # guarded: Closed in the working tree of now (not by me; uncommitted or new):
        # enumerations._SUB_BYTE refuses the numbers of quint4x2/quint2x4 for every dtype
        # argument, packed_checks refuses to unpack such rows, torchscript/tensors keeps
        # loaded ones as SubByteRows: archive code gets no such tensor (sample refused
        # when run again); left: ...
        slice
        # composite: CompositeViewCopyKernels.cpp: slice / unbind / split, then clone; out
        # lists: "expected an out= argument of size N, got size M" (seen);
        # quint4x2/quint2x4 end in "copy_kernel not implemented", so offsets of theirs are
        # never read here
        slice_copy split_copy unbind_copy
        # checked: TensorShape.cpp split_with_sizes_copy_out: "expected an out= argument
        # of size", resize_output_check/"Expected out tensor to have dtype"; lengths by
        # split_with_sizes: "expects split_sizes have only non-negative entries"; a sum
        # that wraps to the size of dim gives only slices clamped by slice.Tensor
        split_with_sizes_copy
        # view: TensorShape.cpp squeeze/unsqueeze: maybe_wrap_dim, "appears multiple
        # times"; strides of dims of size 1; in place by as_strided_ with inferred
        # geometry; sparse/nested without a kernel refuse
        squeeze squeeze_ unsqueeze unsqueeze_
        # checked: TensorShape.cpp sum_to_size: TORCH_CHECK(is_expandable_to(size,
        # self.sizes()), "size {..} is not expandable to size"); then sum/view
        sum_to_size
        # view: TensorShape.cpp transpose/t: maybe_wrap_dim, set strides; t: dim <= 2 (t_,
        # transpose_ of COO swap rows of indices in place: guarded by
        # sparse_checks._in_place)
        swapaxes swapdims t transpose
        # guarded: TensorShape.cpp transpose_/t_: maybe_wrap_dim, as above; COO exchanges
        # rows of indices beneath others that share them: sparse_checks._in_place refuses
        # what is not strided ; csr refused by torch
        swapaxes_ swapdims_ t_ transpose_
        # language: Checks a number / symbolic bounds: TORCH_CHECK, no tensor
        # (native/Constraints.cpp: `Invalid value range`, `Cannot ...`, scalar must be
        # integral)
        sym_constrain_range sym_constrain_range_for_size
        # factory: natives/tensors.py: nested lists measured and compared in length,
        # torch.tensor / empty of these; numbers: scalar_tensor with conversion (inf to
        # int64 is UB of a cast on x86: INT64_MIN, no access)
        tensor
        # composite: TensorShape.cpp tile/repeat: padded size * repeats wraps, but the
        # result is made by at::empty of the wrapped size and filled through unfold +
        # expand_as + copy_, each checked ("maximum size for tensor at dimension 0 is 0
        # but size is 4", "negative dimension": ran 2**62, 2**62+1, -1)
        tile
        # guarded: TensorConversions.cpp: composite of _to_copy;
        # tsarchive/run/tensor_checks.py _copied: a copy has a dtype or a device
        to
        # guarded: Integration.cpp: slice, select, sub, mul, sum;
        # tsarchive/run/tensor_checks.py _not_nested: not of nested tensors
        trapezoid trapz
        # iterator: true division: BinaryOps.cpp build_borrowing_binary_float_op, in
        # floating point, no trap (alias of div.Tensor without rounding mode); sparse div
        # by 0-dim: SparseTensorMath.cpp div_out_sparse_zerodim
        true_divide_
        # guarded: Closed in the working tree of now (not by me; uncommitted or new):
        # enumerations._SUB_BYTE refuses the numbers of quint4x2/quint2x4 for every dtype
        # argument, packed_checks refuses to unpack such rows, torchscript/tensors keeps
        # loaded ones as SubByteRows: archive code gets no such tensor (sample refused
        # when run again); left: ...
        unbind
        # view: TensorShape.cpp unflatten: "sizes must be non-empty", infer_size "don't
        # multiply up to the size of dim", then view
        unflatten
        # guarded: Closed in the working tree of now (not by me; uncommitted or new):
        # derivative_checks SAVED_ARGUMENTS / SAVED_FOR_SPARSE and cloned integer results:
        # saved tensors are nobody else's (all samples ran again: exit 0, gradients
        # right); enumerations._SUB_BYTE refuses the numbers of quint4x2/quint2x4 for
        # every dtype argument, ...
        unsafe_chunk unsafe_split unsafe_split_with_sizes
        # composite: TensorTransformations/Unary: vander: "N must be non-negative", empty
        # [n,N] (overflow checked), cumprod
        vander
        # guarded: TensorShape.cpp infer_size_dv, computeStride;
        # tsarchive/run/tensor_checks.py _bytes_view: no bytes of quantized tensors
        view view_copy
        # view: TensorShape.cpp view_as: view(other.sizes())
        view_as
        # view: ComplexHelper.h: "Tensor must have a last dimension of size 2", "stride
        # divisible by 2", "storage_offset divisible by 2", last stride 1; view_as_real
        # doubles strides of a tensor in bounds
        view_as_complex view_as_real
        # iterator: TensorCompare.cpp: where_self_out: condition Bool or Byte, all
        # dtypes/devices equal after promotion, TensorIteratorConfig; where.default ->
        # nonzero_numpy; Scalar overloads -> where.self
        where
        """,
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
        # guarded: tsarchive/run/tensor_checks.py _eigenvalues: the matrix is finite;
        # LinearAlgebraUtils.h squareCheckInputs
        linalg_eigvals
        # iterator: UnaryOps.cpp: CREATE_UNARY_META_FUNC / unary_op_impl(_float)_out,
        # build_borrowing_unary(_float)_op; tables of coefficients in Math.h are walked by
        # constant bounds, no index from data (erfcx: switch with default); layouts:
        # sparse forms run on values (SparseUnaryOps.cpp, SparseCsrTensorMath.cpp),
        # round.decimals pow(10, ...
        special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0
        special_bessel_y1 special_entr special_erfcx special_i0e special_i1 special_i1e
        special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1
        special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri
        special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
        special_spherical_bessel_j0
        # guarded: tsarchive/run/tensor_checks.py _order: the order bounds the steps of
        # the kernel, which has no arrays
        special_chebyshev_polynomial_t special_chebyshev_polynomial_u
        special_chebyshev_polynomial_v special_chebyshev_polynomial_w
        special_hermite_polynomial_h special_hermite_polynomial_he
        special_laguerre_polynomial_l special_legendre_polynomial_p
        special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
        special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w
        # iterator: UnaryOps.cpp / BinaryOps.cpp: special_* is the alias of digamma, erf,
        # erfc, erfinv, exp2, expit, expm1, igamma, igammac, lgamma, i0, log1p, logit,
        # polygamma, psi, round, sinc, xlogy: build_(borrowing_)unary/binary_float_op; no
        # index from data; series loops are bounded
        special_digamma special_erf special_erfc special_erfinv special_exp2 special_expit
        special_expm1 special_gammainc special_gammaincc special_gammaln special_i0
        special_log1p special_logit special_psi special_round special_sinc special_xlogy
        # iterator: ReduceOps.cpp: make_reduction_from_out_ty / meta::resize_reduction;
        # dims by dim_list_to_bitset ("appears multiple times in the list of dims") and
        # maybe_wrap_dim
        special_logsumexp
        # composite: UnaryOps.cpp mvlgamma: "p has to be greater than or equal to 1";
        # arange(p) + lgamma: memory of p elements for each element (a huge p: cannot
        # allocate, ran)
        special_multigammaln
        # composite: UnaryOps.cpp special_ndtr: erf, erfc, where
        special_ndtr
        # guarded: tsarchive/run/tensor_checks.py _zeta: no sum of endless steps; else as
        # TensorIterator has it
        special_polygamma special_zeta
        # iterator: BinaryOps.cpp: TORCH_META build_borrowing_binary(_float)_op /
        # comparison_op, TensorIterator promotes and checks sizes; igamma(c): loops end at
        # MAXITER (Math.h); sparse add/sub/mul: SparseTensorMath.cpp /
        # SparseCsrTensorMath.cpp / SparseBinaryOpIntersection, `TORCH_CHECK sizes`,
        # indices validated when made (sparse_checks). ...
        special_xlog1py
        """,
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
        # language: Generator(device, seed): make_generator_for_device `Unsupported device
        # for at::make_generator_for_device found`, CPUGeneratorImpl; all seeds and device
        # kinds tried; seed/initial_seed: locked mutex of the generator; a new generator
        # is local
        Generator initial_seed seed
        # iterator: Distributions.cpp / DistributionTemplates.h: TensorIterator over self;
        # p as a tensor is expanded (expand_inplace: "expanded size must match", ran); p
        # in [0,1]; MKL path only for contiguous, by numel
        bernoulli bernoulli_
        # guarded: Distributions.cpp: TensorIterator; tsarchive/run/tensor_checks.py
        # _binomial: no count of nan
        binomial
        # iterator: DistributionTemplates.h: borrowing_nullary_op, parameters checked
        # ("expects sigma > 0.0", "lambda > 0.0", "from is out of bounds": ran with NaN,
        # inf); overlapping self refused by assert_no_internal_overlap
        cauchy cauchy_ exponential exponential_ geometric geometric_ uniform uniform_
        # iterator: Distributions.cpp poisson: TensorIterator over self; "expected rate to
        # be non-negative" (NaN, -1)
        poisson
        # factory: TensorFactories.cpp: empty(_like) + uniform_/normal_/random_ (csr/coo:
        # no kernel for uniform_/random_; normal_ on values, ran)
        rand randn
        # guarded: TensorFactories.cpp: sizes are those of self, checked by
        # computeStorageNbytes; tsarchive/run/tensor_checks.py _nested_dtype,
        # sparse_checks.py with_indices
        rand_like randint_like randn_like
        # checked: TensorFactories.cpp: empty(_like) + random_.from_to: "from < to",
        # "from/to - 1 is out of bounds for" the dtype (DistributionTemplates.h
        # CHECK_OUT_OF_BOUNDS): the range cannot be 0; randint_like.Tensor: item of high;
        # high on meta gives uninitialized memory like empty
        randint
        # guarded: DistributionTemplates.h: "from is out of bounds";
        # tsarchive/run/tensor_checks.py _random_from: a range that floats have
        random random_
        # checked: TensorFactories.cpp randperm: n<0 "negative dimension",
        # check_supported_max_int_with_precision ("n cannot be greater than 2049 for
        # Half"), scalar_tensor(n) must fit ("cannot be converted to type uint8_t"); fills
        # n elements by the stride of a tensor it resized; positions are i + random %
        # (n-i), i < n-1
        randperm
        # composite: RreluWithNoise in Activation.cpp: rrelu -> rrelu_with_noise(self,
        # empty_like(self, LEGACY_CONTIGUOUS_MEMORY_FORMAT), ...): noise is contiguous and
        # of self's size, so the raw loop of _rrelu_with_noise_train (input.contiguous(),
        # output.contiguous()) stays within; lower/upper: uniform_real_distribution checks
        # `from <= to`. ...
        rrelu rrelu_
        """,
    ),
    Group(
        "aten",
        Risk.PROCESS_INFORMATION,
        "tells how this process or this thread is set, or where a value lies",
        """
        # language: TensorProperties: a bit of the key set / a field of the TensorImpl
        cudnn_is_acceptable get_device is_inference is_pinned
        # language: torch's own: register_special_ops.cpp/register_prim_ops: DataType-like
        # functions on numbers and strings (no tensor memory)
        get_autocast_dtype is_autocast_cpu_enabled is_autocast_enabled is_vulkan_available
        # language: implemented in Python: run/natives/control
        has_torch_function is_scripting
        # language: implemented in Python: run/natives/hashing
        hash
        # language: implemented in Python: tsarchive.run.natives (builtin of Python or
        # delegate)
        is_grad_enabled
        """,
    ),
)
