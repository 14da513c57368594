"""Operators that compute, and are written for any arguments: the public names of ``aten``."""

from __future__ import annotations

from typing import Final

from .risks import Group, Risk

COMPUTING: Final = (
    Group(
        "aten",
        Risk.COMPUTE,
        "works on numbers, strings, lists and dicts, or turns tensors into numbers",
        """
        # language: tensor.item() in run/natives/tensor_numbers.py takes one element and no meta
        # tensor; conversions.checked_int bounds the number
        Bool ComplexImplicit Float FloatImplicit Int IntImplicit ScalarImplicit
        # language: in Python: run/natives/conversions.py; overloads with a tensor take its
        # item(), which refuses more than one element
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
        capitalize chr isalnum isalpha isdigit islower istitle isupper join lower lstrip rstrip
        strip swapcase title upper
        # language: in Python: run/natives/bytestrings.py
        center endswith expandtabs find isdecimal isidentifier isnumeric isprintable isspace
        ljust ord partition replace rfind rindex rjust rpartition rsplit splitlines startswith
        zfill
        # language: Python's math, through run/natives/math_functions.py; the Scalar overloads
        # run in torch, on numbers only
        degrees fabs radians
        # language: in Python: run/natives/integers.py and scalars.py; overloads of an int and a
        # float run in torch, on doubles
        divmod
        # language: in Python: run/natives/integers.py, scalars.py and delegation.py; overloads
        # with a tensor call torch.floor_divide
        floordiv
        # language: in Python: run/natives/formatting.py
        format percentFormat str
        # language: takes no tensor: gamma of a number (register_prim_ops.cpp), or a setting of
        # the process that at::Context and its hooks tell
        gamma
        # language: a method of Python's list
        insert
        # language: list() of Python; strings: run/natives/bytestrings.py
        list
        # language: Python's math, through run/natives/math_functions.py
        mathremainder
        # language: in Python: run/natives/math_functions.py
        modf
        # checked: Pow.cpp refuses negative scalar exponents for integers; Pow.h powi halves the
        # exponent, and answers negative ones without a loop
        pow
        # language: run/natives/sorting.py: a sorted copy of a list
        sorted
        # language: in Python: run/natives/futures.py
        wait
        """,
    ),
    Group(
        "aten",
        Risk.COMPUTE,
        "computes on tensors, and checks what it is given",
        """
        # iterator: UnaryOps.cpp: build_borrowing_unary_op and its kin; sparse forms work on the
        # values; loops over coefficients in Math.h have constant bounds
        abs abs_ acos acos_ acosh acosh_ angle asin asin_ asinh asinh_ atan atan_ atanh atanh_
        bitwise_not bitwise_not_ ceil ceil_ conj_physical conj_physical_ cos cos_ cosh cosh_
        deg2rad deg2rad_ digamma digamma_ erf erf_ erfc erfc_ erfinv erfinv_ exp exp2 exp2_ exp_
        expm1 expm1_ floor floor_ frac frac_ i0 i0_ isfinite isinf isnan isneginf isposinf
        lgamma lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_ logical_not logical_not_
        logit logit_ nan_to_num nan_to_num_ neg neg_ positive rad2deg rad2deg_ reciprocal
        reciprocal_ round round_ rsqrt rsqrt_ sgn sgn_ sigmoid sigmoid_ sign sign_ signbit sin
        sin_ sinc sinc_ sinh sinh_ sqrt sqrt_ square square_ tan tan_ tanh tanh_ trunc trunc_
        # iterator: UnaryOps.cpp: aliases of operators on TensorIterator, such as abs, acos, neg
        # and trunc
        absolute absolute_ arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_
        arctan arctan_ arctanh arctanh_ fix fix_ negative negative_
        # composite: Pool.cpp / AdaptiveAveragePooling.cpp: one number in output_size, then
        # unsqueeze and adaptive_avg_pool2d
        adaptive_avg_pool1d
        # checked: AdaptiveAveragePooling.cpp: output_size of 2 numbers, each >= 0, spatial
        # input sizes not 0; start_index and end_index stay in
        adaptive_avg_pool2d
        # guarded: guards._with_plain_outs: no quantized tensor beside an out;
        # AdaptiveAveragePooling3d.cpp checks output_size and input sizes
        adaptive_avg_pool3d
        # guarded: derivative_checks.SAVES_RESULTS: indices are cloned for code;
        # AdaptiveMaxPooling*.cpp checks the sizes
        adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
        # iterator: BinaryOps.cpp: build_borrowing_binary_op and its kin; TensorIterator
        # broadcasts the sizes; sparse forms compare them; loops in Math.h are bounded
        add add_ arctan2 arctan2_ atan2 atan2_ copysign copysign_ eq eq_ fmax fmin ge ge_
        greater greater_ greater_equal greater_equal_ gt gt_ heaviside heaviside_ hypot hypot_
        igamma igamma_ igammac igammac_ le le_ less less_ less_equal less_equal_ logaddexp
        logaddexp2 logical_and logical_and_ logical_or logical_or_ logical_xor logical_xor_ lt
        lt_ maximum minimum mul mul_ multiply multiply_ ne ne_ nextafter nextafter_ not_equal
        not_equal_ rsub sub sub_ subtract subtract_ xlogy xlogy_
        # checked: LinearAlgebra.cpp addbmm_impl_: both 3-d, batches and inner sizes equal, self
        # expands to the result; then addmm_ of each
        addbmm addbmm_
        # iterator: PointwiseOps.cpp: TORCH_META(addcdiv), TORCH_META(addcmul):
        # build_ternary_op; addcdiv refuses integers
        addcdiv addcdiv_ addcmul addcmul_
        # checked: LinearAlgebra.cpp ADDMM_META, SparseTensorMath.cpp, SparseBlas.cpp:
        # mat1.size(1) == mat2.size(0), self expands; sparse indices are valid
        addmm addmm_
        # checked: Blas.cpp addmv meta: mat 2-d, vec 1-d of mat.size(1), self of mat.size(0) or
        # 1; sparse CSR checks the same
        addmv addmv_
        # checked: LinearAlgebra.cpp: vectors are 1-d, self expands to their outer product;
        # build_addr_iter is TensorIterator
        addr addr_ ger
        # view: TensorShape.cpp, LinearAlgebra.cpp: transpose or permute, which wrap their dims
        # (maybe_wrap_dim), and conj
        adjoint mH mT numpy_T
        # checked: AffineGridGenerator.cpp: size of 4 or 5 numbers; empty() and linspace() of
        # sizes, then bmm with theta
        affine_grid_generator
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
        # composite: TensorCompare.cpp isclose, isreal: sub, abs, le, mul, imag, eq; negative
        # rtol and atol are refused; allclose: isclose().all()
        allclose isclose isreal
        # guarded: tensor_checks._range: for integers no step of 0, no least distance by -1;
        # RangeUtils.h arange_check_bounds: finite ends
        arange range
        # composite: Sorting.cpp argsort: the indices of sort, which checks dim
        argsort
        # composite: TensorAdvancedIndexing.cpp argwhere: nonzero, which counts before it fills
        argwhere
        # guarded: Resize.h checkInBoundsForStorage: sizes, strides and offset lie within the
        # storage; tensor_checks._sizes: no size is negative
        as_strided as_strided_copy as_strided_scatter
        # composite: TensorConversions.cpp to: self, or a copy (copy_) into an empty tensor of
        # the same sizes
        as_tensor cpu type_as
        # composite: TensorTransformations.cpp: reshape or unsqueeze
        atleast_1d atleast_2d atleast_3d
        # guarded: window_checks._average_pool: each window has an element of the input;
        # integers are not divided by -1
        avg_pool1d avg_pool2d avg_pool3d
        # guarded: the engine compares sizes and dtypes of gradients (validate_outputs);
        # derivative_checks.SAVED_ARGUMENTS: formulas hold indices of their own
        backward get_gradients grad
        # checked: LinearAlgebra.cpp common_checks_baddbmm_bmm: 3-d, first two sizes of batch2
        # as batch1 tells; sparse and nested check the same
        baddbmm baddbmm_ bmm
        # factory: TensorFactories.cpp window_function_checks: strided floats, window_length >=
        # 0; arange and arithmetic in place
        bartlett_window blackman_window hamming_window hann_window kaiser_window
        # checked: Normalization.cpp _batch_norm_impl_index: check_dims_match_num_input_features
        # for all four, both statistics unless it trains
        batch_norm
        # checked: Linear.cpp bilinear: last sizes of both inputs against weight, batches equal;
        # then _trilinear
        bilinear
        # iterator: Loss.cpp binary_cross_entropy_cpu: TensorIterator over input, target and a
        # result that it resizes; input checked to be in [0, 1]
        binary_cross_entropy
        # composite: Loss.cpp: log_sigmoid, mul, sub and apply_loss_reduction (mean, sum, else
        # none)
        binary_cross_entropy_with_logits
        # checked: SummaryOps.cpp _bincount_cpu_template: 1-d, non-negative, minlength >= 0; the
        # output has max + 1 places
        bincount
        # iterator: BinaryOps.cpp: build_borrowing_binary_op, bit by bit; overloads on ints and
        # bools are Python's (run/natives)
        bitwise_and bitwise_and_ bitwise_or bitwise_or_ bitwise_xor bitwise_xor_
        # checked: BinaryOpsKernel.cpp lshift_kernel, rshift_kernel: counts below 0 or beyond
        # the bits have answers of their own; ints: run/natives/integers.py
        bitwise_left_shift bitwise_left_shift_ bitwise_right_shift bitwise_right_shift_
        # composite: TensorShape.cpp block_diag: at most 2-d; zeros of the summed sizes, then
        # slice and copy_
        block_diag
        # view: ExpandUtils.cpp inferExpandGeometry: a size is that of self, or expands a 1; the
        # number of elements must not overflow
        broadcast_tensors expand_as
        # guarded: ExpandUtils.cpp inferExpandGeometry: a size is that of self, or expands a 1;
        # tensor_checks._expanded: none is below -1
        broadcast_to expand expand_copy
        # checked: Bucketization.cpp searchsorted_pre_check: boundaries are 1-d; the binary
        # search stays within them, sorted or not
        bucketize
        # language: in Python: run/natives/tensor_properties.py
        can_cast device promote_types
        # composite: Itertools.cpp cartesian_prod: 1-d tensors; meshgrid, flatten, stack
        cartesian_prod
        # checked: TensorShape.cpp cat: check_cat_shape_except_dim, maybe_wrap_dim,
        # assert_no_overlap of the out; sparse: cat_sparse_impl compares the sizes
        cat concat concatenate
        # guarded: guards._COPIED_RESULTS (sparse_checks.INDICES_OF): torch checks the layout;
        # code gets clones of the indices
        ccol_indices col_indices crow_indices indices
        # checked: SparseTensor.cpp, SparseCsrTensor.cpp: the layout is checked; the result is a
        # clone, so nothing shares the indices
        ccol_indices_copy col_indices_copy crow_indices_copy indices_copy
        # checked: Distance.cpp: both at least 2-d, last sizes equal, p >= 0, mode 0 to 2,
        # batches expand; kernels go by these sizes
        cdist
        # iterator: Activation.cpp: structured kernels on TensorIterator; so are the quantized
        # forms, in quantized/cpu
        celu celu_ elu elu_ gelu gelu_ hardshrink hardsigmoid hardsigmoid_ hardtanh hardtanh_
        leaky_relu leaky_relu_ mish mish_ relu relu6 relu6_ relu_ selu selu_ silu silu_ softplus
        softshrink threshold threshold_
        # guarded: matrix_checks._chain: at most 1024 matrices; LinearAlgebra.cpp multi_dot: mm,
        # mv
        chain_matmul
        # composite: TensorConversions.cpp chalf: to() of complex32
        chalf
        # checked: ChanelShuffle.cpp: at least 3-d, groups > 0 and divides channels; quantized:
        # 4-d quint8 of one scale, the same checks
        channel_shuffle
        # library: BatchLinearAlgebra.cpp squareCheckInputs, column-major copies; LAPACK potrf /
        # potri, whose info is checked
        cholesky cholesky_inverse
        # library: BatchLinearAlgebra.cpp linearSolveCheckInputs: both at least 2-d, sizes fit,
        # batches broadcast; LAPACK potrs on copies
        cholesky_solve
        # guarded: tensor_checks._best_scale: float32, no more elements than there are, and
        # bounded steps; guards._with_plain: contiguous data
        choose_qparams_optimized
        # guarded: TensorShape.cpp checks dims and lengths; enumerations._SUB_BYTE: no code
        # holds quint4x2 or quint2x4, whose views overrun
        chunk dsplit hsplit narrow slice split split_with_sizes tensor_split unbind vsplit
        # iterator: TensorCompare.cpp: TORCH_META(clamp) and its kin build a TensorIterator; so
        # does quantized/cpu/qclamp.cpp
        clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_
        # composite: TensorFactories.cpp clone: empty_like, then copy_; sparse forms clone their
        # parts; quantized: quantized_clone in quantized/QTensor.cpp
        clone
        # checked: SparseTensor.cpp: layout is checked; indices are valid by
        # sparse_checks.validated; flattening cannot overflow, as numel cannot
        coalesce
        # guarded: window_checks._columns: numbers below 2**30, so that the product of both
        # dimensions fits 64 bits
        col2im im2col
        # composite: TensorShape.cpp: cat of tensors that were reshaped; stack:
        # check_stack_inputs asks for equal sizes
        column_stack dstack hstack row_stack stack vstack
        # guarded: tensor_checks._combinations: at most 64 elements; meshgrid, masked_select
        combinations
        # iterator: TensorFactories.cpp: complex_check_floating, complex_check_dtype, then
        # TensorIterator; numbers: std::polar
        complex polar
        # view: UnaryOps.cpp conj: self.alias() with the conjugate bit set
        conj
        # checked: PadNd.cpp constant_pad_nd: pairs, at most two per dim, new sizes not
        # negative; then narrow and copy_
        constant_pad_nd
        # composite: TensorProperties.cpp contiguous: clone in a memory format, whose rank
        # TensorImpl.h checks; enumerations: the number of the format
        contiguous
        # guarded: window_checks.check_steps: strides, padding and rows times stride that oneDNN
        # counts in 32 bits; Convolution.cpp checks sizes
        conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution
        # checked: ConvolutionTBC.cpp: 3-d input and weight, 1-d bias, channels match, olen by
        # empty(); addmm on narrow()ed parts
        conv_tbc
        # guarded: derivative_checks._convolution: not transposed; the gradient has the sizes
        # that the convolution gives, steps above 0
        convolution_backward
        # guarded: tensor_checks._copy: the target is strided or COO; then copy_, whose
        # expand_inplace compares the sizes
        copy
        # checked: Copy.cpp copy_: expand_inplace compares the sizes, TensorIterator copies;
        # sparse and quantized forms compare layout, sizes and scheme
        copy_
        # checked: SparseTensor.cpp copy_sparse_: both must be sparse COO; resize_ checks sparse
        # and dense dims, then indices and values are copied
        copy_sparse_to_sparse copy_sparse_to_sparse_
        # composite: Correlation.cpp cov checks dimensions, and the sizes, dtypes and signs of
        # weights; then mul, sum and matmul
        corrcoef cov
        # composite: Loss.cpp: arithmetic with broadcasting, where, clamp_min and
        # apply_loss_reduction (mean, sum, else none)
        cosine_embedding_loss hinge_embedding_loss
        # composite: cosine_similarity in Distance.cpp: sum, mul and clamp_min along a dim that
        # wraps; dist: norm of a difference
        cosine_similarity dist
        # iterator: TensorAdvancedIndexing.cpp count_nonzero: numel of a TensorIterator, or
        # (self != 0).sum(dims)
        count_nonzero
        # composite: Cross.cpp cross: linalg_cross along dim or the first of size 3; both have 3
        # there and broadcast
        cross
        # guarded: derivative_checks.SAVED_ARGUMENTS: formulas save a copy of target;
        # LossNLL.cpp, LossNLL2d.cpp check sizes and each target
        cross_entropy_loss
        # guarded: tensor_checks._ctc: targets are labels, lengths not negative;
        # derivative_checks.SAVED_ARGUMENTS
        ctc_loss
        # composite: to() of a device; a build without CUDA raises (DeviceGuardImplInterface.h
        # getDeviceGuardImpl)
        cuda
        # checked: ReduceOps.cpp cummax_helper / cummin_helper: maybe_wrap_dim;
        # tensor_dim_apply3 walks size(dim) of outputs sized as self
        cummax cummin
        # checked: ReduceOps.cpp impl_func_cum_ops: maybe_wrap_dim, output sized as self; the
        # kernel walks size(dim) by strides
        cumprod cumprod_ cumsum cumsum_
        # composite: Integration.cpp: sizes of x and y along dim are compared; slice, mul,
        # cumsum; nested tensors have no slice
        cumulative_trapezoid
        # guarded: the memory of self under another version counter;
        # derivative_checks.SAVED_ARGUMENTS: formulas hold indices of their own
        data
        # language: SparseTensor.cpp: a field of SparseTensorImpl; other layouts are refused or
        # told a constant
        dense_dim is_coalesced
        # checked: affine_quantizer.cpp: axis within dims and one scale per channel; others go
        # by numel of a contiguous copy
        dequantize
        # composite: LinearAlgebra.cpp det: linalg_det, which wants square matrices of floats
        # and factors a copy
        det
        # view: TensorShape.cpp detach: an alias of the same sizes and storage, or a clone
        detach detach_ detach_copy
        # composite: TensorShape.cpp diag: 1-d or 2-d; diag_embed or diagonal_copy
        diag
        # composite: TensorShape.cpp diag_embed: dims wrapped and different; zeros of checked
        # sizes, diagonal(), copy_
        diag_embed
        # composite: TensorShape.cpp diagflat: diag_embed of the flattened tensor
        diagflat
        # view: TensorShape.cpp diagonal: dims wrapped and different; an offset beyond gives
        # size 0; as_strided
        diagonal diagonal_copy
        # composite: TensorShape.cpp diagonal_scatter: clone, diagonal, sizes of src equal,
        # copy_
        diagonal_scatter
        # checked: ReduceOps.cpp diff_check: order, and dimensions and sizes of prepend and
        # append; then narrow and sub
        diff
        # language: run/natives/tensor_properties.py: an attribute or a method of torch.Tensor
        # that reads none of its memory; a dim wraps
        dim element_size is_complex is_contiguous is_floating_point numel result_type size
        storage_offset stride
        # guarded: division_checks.check_rounding: not the least integer by -1 in the dtype of
        # both, nor a sparse tensor that is not coalesced
        div div_ divide divide_ true_divide
        # checked: Blas.cpp dot_check: both 1-d, one dtype, equal numel; strides of 0 and more
        # are passed to BLAS
        dot
        # checked: Linear.cpp einsum: labels in [a-zA-Z], dims and sizes matched to them, path
        # of the right length with indices within the operands
        einsum
        # guarded: the kernel checks each index; derivative_checks.SAVED_ARGUMENTS: the indices
        # of a sparse gradient are copies
        embedding gather
        # guarded: tensor_checks._embedding_bag: offsets rise within the indices, weights as
        # many, a known mode; SAVED_ARGUMENTS, SAVES_RESULTS
        embedding_bag
        # checked: Embedding.cpp embedding_renorm_cpu_: 2-d weight, Long or Int indices; rows by
        # self[index], which checks
        embedding_renorm embedding_renorm_
        # guarded: EmptyTensor.cpp: no negative size (check_size_nonnegative), no overflow
        # (computeStorageNbytes); sparse_checks.with_indices: valid indices
        empty new_empty
        # guarded: the sizes of self (TensorFactories.cpp); tensor_checks._nested_dtype: no
        # quantized tensor of a nested one; sparse_checks.with_indices
        empty_like full_like ones_like zeros_like
        # factory: TensorFactories.cpp empty_permuted: each dim once, in range, as many as
        # sizes; then empty and as_strided
        empty_permuted
        # factory: quantized/TensorFactories.cpp empty_quantized: qtensor is quantized, sizes
        # not negative; users of scales check them against the axis
        empty_quantized
        # factory: EmptyTensor.cpp computeStorageNbytes: no negative size and no overflow, which
        # negative strides of two or more elements count as
        empty_strided new_empty_strided
        # guarded: ReduceOps.cpp cpu_equal compares the sizes first; packed_checks.SUB_BYTE: no
        # code holds elements smaller than a byte
        equal
        # factory: TensorFactories.cpp eye_out_cpu: no negative n; resize_, zero_, then the
        # min(n, m) elements of the diagonal; guards._writable: a dense out
        eye
        # checked: FakeQuantPerChannelAffine.cpp: one scale and zero point per size(axis), axis
        # within dims; the rest is TensorIterator
        fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask
        # checked: FakeQuantPerTensorAffine.cpp: scale and zero point are numbers or item();
        # floats are divided, elements go by TensorIterator
        fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask
        # iterator: Fill.cpp: TensorIterator::nullary_op, or memset of nbytes(); a tensor as
        # value has no dimensions; quantized: copy_
        fill fill_ zero zero_
        # view: Fill.cpp fill_diagonal_: at least 2-d, equal sizes beyond 2-d; as_strided views
        # are checked against the storage
        fill_diagonal_
        # view: TensorShape.cpp reshape: infer_size_dv compares the numbers of elements,
        # computeStride finds the strides; else clone and _unsafe_view
        flatten ravel reshape reshape_as
        # composite: TensorShape.cpp flatten_dense_tensors: cat of contiguous().view(-1)
        flatten_dense_tensors
        # view: TensorTransformations.cpp flip: dim_list_to_bitset, at most 64 dims;
        # TensorIterator over strides of the same storage
        flip fliplr flipud
        # composite: Pow.cpp float_power: pow, of doubles or complex doubles
        float_power float_power_
        # guarded: division_checks._no_overflow: before torch 2.10 not the least integer by -1,
        # for which c10::div_floor_integer answers since; div_floor_kernel: TORCH_CHECK(b != 0)
        floor_divide
        # guarded: division_checks._floor_divide_in_place: a sparse tensor is coalesced, and what
        # floor_divide is guarded for
        floor_divide_
        # guarded: division_checks._no_overflow: before torch 2.10 not the least integer by -1,
        # which gives 0 since; remainder_kernel, fmod_kernel: TORCH_CHECK(b != 0); numbers:
        # run/natives
        fmod fmod_ remainder remainder_
        # checked: FractionalMaxPool*.cpp: pool + output - 1 <= input, samples for each plane;
        # AT_ASSERT on each index, forward and backward
        fractional_max_pool2d fractional_max_pool3d
        # iterator: UnaryOps.cpp frexp_out: TensorIterator with two outputs; the exponents are
        # of int32
        frexp
        # composite: LinearAlgebra.cpp frobenius_norm: linalg_vector_norm or norm along dims,
        # which check these
        frobenius_norm
        # factory: EmptyTensor.cpp: no negative size (check_size_nonnegative), no overflow
        # (computeStorageNbytes); then fill_ or zero_
        full new_full new_ones new_zeros ones scalar_tensor zeros
        # guarded: tensor_checks._moving_average: what is observed has one place, or one per
        # row; flags are one number
        fused_moving_avg_obs_fake_quant
        # checked: Math.h calc_gcd: no divisor is 0, and abs(a) is the first one, so that the
        # least integer is never divided by -1
        gcd gcd_
        # library: BatchLinearAlgebra.cpp geqrf: at least 2-d; column-major copy and min(m, n)
        # places for tau; LAPACK geqrf
        geqrf
        # checked: GatedLinearUnit.cpp glu: not 0-d, maybe_wrap_dim, an even size;
        # TensorIterator over two narrow()ed halves
        glu
        # composite: GatedLinearUnit.cpp glu_jvp: dim wrapped; narrow() of x and dx by the size
        # of glu, then a TensorIterator
        glu_jvp
        # composite: ReduceOps.cpp pre_check_gradient: edge_order, sizes, spacing and dims; then
        # narrow, mul and cat
        gradient
        # guarded: tensor_checks._grid: known modes; GridSamplerUtils.h checks sizes, kernels
        # test each location
        grid_sampler grid_sampler_2d grid_sampler_3d
        # checked: group_norm.cpp check_group_norm_inputs: groups > 0 and divide channels,
        # weight and bias of one number for each channel
        group_norm
        # guarded: recurrent_checks._rnn: weights, states and batch sizes fit layers and
        # directions
        gru
        # guarded: recurrent_checks._cell: state and weights have the rows of three gates
        gru_cell
        # iterator: Activation.cpp: hardswish on TensorIterator; log_sigmoid gives the first
        # result of log_sigmoid_forward
        hardswish hardswish_ log_sigmoid
        # iterator: ReduceOps.cpp: make_reduction_from_out_ty; mode, dtype of the out and empty
        # dims (zero_numel_check_dims) are checked
        hash_tensor
        # guarded: tensor_checks._histogram: bins that the dtype of the input tells apart
        histc histogram histogramdd
        # checked: SparseTensorMath.cpp hspmm_out_sparse_cpu: both are matrices, size(1) ==
        # size(0); row indices are made from coalesced valid ones
        hspmm
        # iterator: Loss.cpp: TensorIterator::borrowing_binary_op or sub().abs(); a reduction
        # that is neither mean nor sum means none
        huber_loss l1_loss
        # view: UnaryOps.cpp imag, real: select of view_as_real; real gives a self that is not
        # complex
        imag real
        # checked: IndexingUtils, IndexKernelUtils.h Indexer: index within -size and size for
        # each element; masks must match in shape
        index
        # checked: TensorAdvancedIndexing.cpp index_add_cpu_out: source shape but dim as self,
        # index count as source.size(dim), each index in range
        index_add index_add_
        # checked: TensorAdvancedIndexing.cpp, IndexKernel.cpp index_copy_kernel: slice shapes
        # equal, each index 0 <= index < size(dim)
        index_copy index_copy_
        # checked: IndexKernel.cpp index_fill_kernel: each index within -size(dim) and
        # size(dim); value is a number or 0-d
        index_fill index_fill_
        # checked: IndexKernelUtils.h Indexer: index within -size and size for each element;
        # values must broadcast
        index_put index_put_
        # checked: TensorAdvancedIndexing.cpp index_reduce_func_impl: shapes as in index_add, a
        # known reduce, each index in range; counts of 0 become 1
        index_reduce index_reduce_
        # checked: TensorAdvancedIndexing.cpp index_select_out_cpu_, sparse and quantized ones
        # too: each index 0 <= index < size(dim)
        index_select
        # composite: LinearAlgebra.cpp inner: last sizes must match; mul of numbers or tensordot
        inner
        # composite: Normalization.cpp instance_norm: repeats weight and statistics for each
        # batch, then batch_norm of [1, b * c, ...]
        instance_norm
        # iterator: quantized/cpu/IntReprQuant.cpp: TensorIterator copies the integers of a
        # quantized tensor; scales are not read
        int_repr
        # composite: BatchLinearAlgebra.cpp inverse: linalg_inv, which wants square matrices
        inverse
        # language: TensorProperties.cpp, TensorImpl: reads or sets a flag or a field of the
        # tensor, none of its memory
        is_conj is_distributed is_leaf is_neg is_same_size is_signed qscheme requires_grad_
        retain_grad retains_grad
        # language: TensorProperties.cpp: a flag of TensorImpl, computed from sizes and strides
        is_non_overlapping_and_dense
        # composite: native is_nonzero: numel must be 1 ("Boolean value of Tensor with no values
        # is ambiguous"), then item()
        is_nonzero
        # language: TensorImpl: sizes, strides and offset, which nested and sparse tensors
        # refuse; enumerations: the number of a memory format
        is_set_to is_strides_like_format sym_is_contiguous sym_numel sym_size sym_storage_offset
        sym_stride
        # checked: TensorCompare.cpp isin: scans, or sorts a flat cat of both and compares
        # neighbours; results go by index_put or views
        isin
        # checked: SpectralOps.cpp istft: 0 < hop_length <= win_length <= n_fft, window of
        # win_length, dims and n_fft match; then irfft, unfold_backward
        istft
        # language: torch.Tensor.item: Scalar.cpp item refuses more than one element; meta
        # tensors have none
        item
        # composite: Loss.cpp kl_div: sub, mul, xlogy and a reduction; other numbers than those
        # of mean and sum mean none
        kl_div
        # composite: LinearAlgebra.cpp kron: reshape, mul and view of sizes that it computes
        # from both
        kron
        # checked: Sorting.cpp kthvalue: 1 <= k <= size(dim); quick_select on a copy moves
        # within size(dim), nan sorts last
        kthvalue
        # guarded: tensor_checks._layer_norm: nested inputs have elements to normalize;
        # layer_norm.cpp checks sizes
        layer_norm native_layer_norm
        # guarded: division_checks._multiples: no least integer by a divisor that they take for -1
        lcm lcm_
        # composite: BinaryOps.cpp ldexp: mul(x, pow(2.0, other))
        ldexp ldexp_
        # iterator: Lerp.cpp: TORCH_META(lerp_Tensor) compares the dtypes and builds a
        # TensorIterator
        lerp lerp_
        # composite: Linear.cpp linear: addmm, or matmul and add_, which check sizes; nested
        # ones check dimensions and widths in NestedTensorMatmul.cpp
        linear
        # factory: TensorFactories.cpp, RangeFactories.cpp: no negative steps; the result is
        # resized to them; one step divides by nothing
        linspace logspace
        # iterator: Activation.cpp log_sigmoid_forward_out_cpu: the buffer gets the sizes of
        # self, TensorIterator or contiguous parts; guards._with_plain_outs
        log_sigmoid_forward
        # checked: SoftMax.cpp: dim is wrapped; outer, dim and inner sizes are those of the
        # contiguous input; no index from data
        log_softmax softmax
        # checked: ReduceOps.cpp logcumsumexp: dim is wrapped; cpu/ReduceOpsKernel.cpp walks
        # size(dim) elements by the strides of the tensors
        logcumsumexp
        # library: BatchLinearAlgebra.cpp _linalg_slogdet: square matrices in a copy of their
        # own for getrf; the rest works on the diagonal
        logdet slogdet
        # iterator: ReduceOps.cpp: make_reduction_from_out_ty; dim_list_to_bitset and
        # maybe_wrap_dim check the dims
        logsumexp mean nanmean nansum prod sum
        # guarded: recurrent_checks._lstm: weights, states and batch sizes fit the layers
        lstm
        # guarded: recurrent_checks._cell: rows of both weights are the gates of the state
        lstm_cell rnn_relu_cell rnn_tanh_cell
        # library: BatchLinearAlgebra.cpp linalg_lu_solve: sizes of LU, pivots and B;
        # BatchLinearAlgebraKernel.cpp: each pivot from 1 to LU.size(-2)
        lu_solve
        # guarded: matrix_checks._pivots: sizes of the pivots; torch checks that each is from 1
        # to LU.size(-2)
        lu_unpack
        # composite: Loss.cpp: arithmetic, clamp_min, exp, log and sum that broadcast
        margin_ranking_loss poisson_nll_loss
        # iterator: TensorAdvancedIndexing.cpp masked_fill_impl_cpu: a mask of bools,
        # assert_no_partial_overlap, TensorIterator; a value of no dimensions
        masked_fill masked_fill_
        # checked: cpu/IndexKernel.cpp masked_scatter: before each read, that source has an
        # element left; mask is bool, dtypes are equal
        masked_scatter masked_scatter_
        # checked: TensorAdvancedIndexing.cpp masked_select: the result has as many places as
        # the mask counts; cpu/IndexKernel.cpp writes these
        masked_select
        # composite: LinearAlgebra.cpp _matmul_impl: mm, bmm, mv, dot, which check their sizes;
        # nested ones NestedTensorMatmul.cpp, each size by itself
        matmul
        # view: LinearAlgebra.cpp matrix_H: 2 dimensions; transpose and conj
        matrix_H
        # checked: LinearAlgebra.cpp linalg_matrix_exp: square; sums and matmul of whole
        # matrices, squared at most log2 of a finite norm times
        matrix_exp
        # guarded: matrix_checks._power: not to the least integer; LinearAlgebra.cpp: matmul of
        # square matrices
        matrix_power
        # iterator: ReduceAllOps.cpp max, min: no empty tensor; TensorCompare.cpp:
        # maybe_wrap_dim and zero_numel_check_dims of a dim; else maximum, minimum
        max min
        # guarded: window_checks._max_pool: each window has an element of the input, and
        # positions fit 32 bits
        max_pool1d max_pool2d max_pool3d
        # guarded: window_checks._max_pool: each window has an element;
        # derivative_checks.SAVES_RESULTS gives copies of the indices that are saved
        max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices
        # guarded: derivative_checks._max_pool: sizes and range of the indices
        max_pool2d_with_indices_backward
        # checked: MaxUnpooling.cpp: sizes of indices and output; cpu/MaxUnpoolKernel.cpp: each
        # index below the output volume
        max_unpool2d max_unpool3d
        # checked: Sorting.cpp: dim is wrapped and not empty (zero_numel_check_dims);
        # nth_element on positions, NaN in order
        median nanmedian
        # view: TensorShape.cpp meshgrid: tensors of 0 or 1 dimensions, view and expand, which
        # check their sizes
        meshgrid
        # checked: LinearAlgebra.cpp meta mm: matrices, mat1.size(1) == mat2.size(0); sparse:
        # addmm_sparse_dense, SparseBlas.cpp: the same, indices validated
        mm
        # checked: TensorCompare.cpp mode_out: dim is wrapped and not empty
        # (zero_numel_check_dims); sorts pairs of element and position, NaN last
        mode
        # view: TensorShape.cpp: maybe_wrap_dims; no dim twice, and as many as there are
        moveaxis movedim permute
        # iterator: Loss.cpp: a TensorIterator over both tensors, then mean or sum
        mse_loss smooth_l1_loss
        # composite: Sorting.cpp msort: sort
        msort
        # guarded: LossMultiMargin.cpp: each target is a class;
        # derivative_checks.SAVED_ARGUMENTS copies those that the formula trusts
        multi_margin_loss
        # guarded: LossMultiLabelMargin.cpp: targets from -1 to classes - 1;
        # derivative_checks.SAVED_ARGUMENTS copies those that the formula trusts
        multilabel_margin_loss
        # checked: LossMultiLabelMargin.cpp: target has the size of self and lies from -1 to
        # classes - 1
        multilabel_margin_loss_forward
        # checked: Blas.cpp mv: addmv_meta checks matrix, vector and size(1); sparse: mv_sparse,
        # the same
        mv
        # checked: UnaryOps.cpp mvlgamma_check: dtype, and p of at least 1; then arange, which
        # checks its size, add, lgamma and sum
        mvlgamma mvlgamma_
        # checked: Sorting.cpp quantile_checks: input not empty, q from 0 to 1, and NaN fails;
        # ranks are at most size - 1, then gather
        nanquantile quantile
        # checked: TensorShape.cpp narrow_copy_dense_cpu_out: start, length and dtype; the out
        # is resized; memcpy from contiguous data; guards._with_plain_outs
        narrow_copy
        # guarded: tensor_checks._batch_norm: weight, bias and statistics have one number for
        # each channel
        native_batch_norm
        # checked: ChanelShuffle.cpp: 3 dimensions or more, groups > 0, channels divisible by
        # them; then view and permute
        native_channel_shuffle
        # guarded: tensor_checks._group_norm: sizes and groups are those of the input
        native_group_norm
        # composite: sparse/SparseTensorMath.cpp norm_sparse: sparse only, all dimensions only;
        # norm of the coalesced values
        native_norm
        # checked: nested/NestedTensorMath.cpp to_padded_tensor: contiguous; output_size has all
        # dims and none below the largest part
        nested_to_padded_tensor to_padded_tensor
        # guarded: LossNLL.cpp TORCH_CHECK_INDEX: each target is a class;
        # derivative_checks.SAVED_ARGUMENTS copies those that the formula trusts
        nll_loss nll_loss_forward
        # guarded: LossNLL2d.cpp TORCH_CHECK_INDEX: each target is a class;
        # derivative_checks.SAVED_ARGUMENTS copies those that the formula trusts
        nll_loss2d nll_loss2d_forward
        # guarded: LossNLL.cpp nll_loss_nd: nll_loss, nll_loss2d;
        # derivative_checks.SAVED_ARGUMENTS copies the targets that the formula trusts
        nll_loss_nd
        # checked: TensorAdvancedIndexing.cpp nonzero_out_cpu: counts by thread, resizes, and
        # asserts that as many were written
        nonzero
        # composite: TensorAdvancedIndexing.cpp nonzero_numpy: nonzero, unbind
        nonzero_numpy
        # checked: TensorAdvancedIndexing.cpp nonzero_static_out_cpu: size >= 0; writes at most
        # size rows, then fills the rest
        nonzero_static
        # iterator: LinearAlgebra.cpp linalg_vector_norm: dims wrap and stand once, order is a
        # real number; sparse: norm_sparse
        norm
        # composite: WeightNorm.cpp norm_except_dim: norm, transpose, contiguous, view; dims
        # wrap
        norm_except_dim
        # composite: LinearAlgebra.cpp nuclear_norm: linalg_matrix_norm, which takes two
        # different dims: linalg_svdvals, sum
        nuclear_norm
        # checked: Onehot.cpp one_hot: classes from 0 to num_classes - 1; then zeros and
        # scatter_, which checks again
        one_hot
        # library: BatchLinearAlgebra.cpp linalg_householder_product: rows >= columns >= tau,
        # equal batches and dtypes; then orgqr
        orgqr
        # library: BatchLinearAlgebra.cpp ormqr: sizes of input, tau and other, batches and
        # dtypes; then ormqr
        ormqr
        # composite: LinearAlgebra.cpp outer: vectors only; mul of an unsqueezed view
        outer
        # language: VariableMethodStubs.cpp output_nr: a number that the tensor has
        output_nr
        # guarded: window_checks._pad: numbers of padding stay below 2**31; torch checks the
        # sizes that result
        pad reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
        replication_pad2d replication_pad3d
        # composite: PackedSequence.cpp pad_sequence: full, then narrow or select and copy_,
        # which check sizes
        pad_sequence
        # composite: Distance.cpp pairwise_distance: norm of a difference that broadcasts
        pairwise_distance
        # guarded: derivative_checks._distances: the formula gets rows; Distance.cpp: a
        # contiguous matrix, p >= 0
        pdist
        # composite: Memory.cpp: a copy in memory of an accelerator's host; raises where there
        # is no accelerator
        pin_memory
        # composite: LinearAlgebra.cpp pinverse: linalg_pinv: linalg_svd or linalg_eigh, where,
        # matmul
        pinverse
        # checked: PixelShuffle.cpp: 3 dimensions or more, factor > 0, its square fits, channels
        # divisible by it; then reshape, permute
        pixel_shuffle
        # checked: PixelShuffle.cpp: 3 dimensions or more, factor > 0, height and width
        # divisible by it; then reshape, permute
        pixel_unshuffle
        # guarded: tensor_checks._zeta: no sum from below -65536; else pointwise, on
        # TensorIterator
        polygamma polygamma_
        # checked: Pow.cpp refuses negative scalar exponents for integers; Pow.h powi halves the
        # exponent, and answers negative ones without a loop
        pow_
        # checked: Activation.cpp prelu: weight of one number, or one for each channel;
        # expanded, then a TensorIterator
        prelu
        # checked: cpu/IndexKernel.cpp: TORCH_CHECK_INDEX for each index; source and index have
        # as many elements, self has some
        put put_
        # language: quantized/QTensor.cpp: what the quantizer holds; its qscheme is checked
        q_per_channel_axis q_scale q_zero_point
        # language: quantized/QTensor.cpp: the tensor of the quantizer; its kernels check that
        # it has one number for each channel
        q_per_channel_scales q_per_channel_zero_points
        # library: BatchLinearAlgebra.cpp linalg_qr: 2 dimensions or more, results of their own
        # sizes; then geqrf, orgqr
        qr
        # guarded: AffineQuantizer.cpp checkPerChannelParamsSize: a scale for each channel;
        # tensor_checks._per_channel: no qint32 with zero points of floats
        quantize_per_channel
        # checked: quantized/QTensor.cpp: float, quantized dtype; AffineQuantizer.cpp: zero
        # point in range; lists: select() checks that each has its own
        quantize_per_tensor
        # checked: quantized/QTensor.cpp: qint8, quint8 or half; min and max refuse no elements;
        # then quantize_per_tensor
        quantize_per_tensor_dynamic
        # guarded: recurrent_checks._quantized_gru: packed weights and states fit the layers;
        # packed_checks.READS_MEMORY makes inputs contiguous
        quantized_gru
        # guarded: recurrent_checks._quantized_lstm: packed weights and states fit the layers;
        # packed_checks.READS_MEMORY makes inputs contiguous
        quantized_lstm
        # checked: Normalization.cpp meta renorm: p > 0, maxnorm >= 0, 2 dimensions or more, dim
        # wraps; then norm, a TensorIterator, mul
        renorm renorm_
        # checked: TensorShape.cpp repeat: as many repeats as dimensions or more; empty checks
        # the sizes; unfold and copy_
        repeat
        # guarded: tensor_checks._repeats: no repeat is negative, and their sum fits 64 bits;
        # Repeat.cpp checks that sum against the size
        repeat_interleave
        # composite: UnaryOps.cpp resolve_conj, resolve_neg: clone where the bit is set, else
        # self
        resolve_conj resolve_neg
        # language: a method of Python's list
        reverse
        # composite: layer_norm.cpp rms_norm: _check_rms_norm_inputs_symint, then pow, mean,
        # rsqrt, mul
        rms_norm
        # guarded: recurrent_checks._rnn: weights, states and batch sizes fit the layers
        rnn_relu rnn_tanh
        # composite: TensorTransformations.cpp roll: shifts modulo a size that is not 0, dims
        # wrap; narrow and cat
        roll
        # composite: TensorTransformations.cpp rot90: two different dims; then flip and
        # transpose, k modulo 4
        rot90
        # guarded: sparse_checks.INDICES_OF: code gets a copy of the indices
        row_indices
        # view: A copy of row_indices, which asks for the layout
        row_indices_copy
        # guarded: tensor_checks._dot_product: widths of query and key, numbers of key and
        # value; mask and heads are checked by expand and matmul
        scaled_dot_product_attention
        # checked: ScatterGatherChecks.h scatter_shape_check: index within self and src;
        # cpu/ScatterGatherKernel.cpp: each index in bounds
        scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_
        # checked: BucketizationUtils.h searchsorted_pre_check: sizes fit, sorter lies within
        # the last dimension; a binary search
        searchsorted
        # guarded: TensorShape.cpp select: an index in range; tensor_checks._select: the dims of
        # nested tensors are counted from the front
        select
        # view: TensorShape.cpp select_copy: a copy of select, which checks dim and index; per
        # channel: create_subtensor_quantizer
        select_copy
        # view: TensorShape.cpp select_scatter: select and copy_ on a clone; src has the size of
        # the slice
        select_scatter
        # language: in Python: run/natives/control.py
        set_grad_enabled
        # composite: slice, split or unbind in TensorShape.cpp, then clone; a list of outs has
        # as many items as there are parts
        slice_copy split_copy unbind_copy
        # view: TensorShape.cpp slice_inverse: as_strided by sizes and strides of src;
        # setStrided checks that they lie in the storage
        slice_inverse
        # view: TensorShape.cpp slice_scatter: slice and copy_ on a clone; step > 0, src has the
        # size of the slice
        slice_scatter
        # guarded: sparse_checks._product: elements times columns fit 64 bits; indices are
        # validated when made
        smm sspaddmm
        # composite: Loss.cpp: neg, mul, exp, log1p, then mean or sum
        soft_margin_loss
        # checked: Sorting.cpp sort: dim wraps, positions are its own, NaN in order; lists:
        # run/natives/sorting.py
        sort
        # guarded: sparse_checks.SPARSE_MAKERS: copies of the indices, which
        # sparse_checks.validated checks against the size
        sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor
        sparse_csc_tensor sparse_csr_tensor
        # language: sparse/SparseTensor.cpp: a number that the sparse tensor has, 0 for dense
        # ones
        sparse_dim
        # guarded: sparse_checks.validated: indices lie within their sizes; torch checks that
        # self and mask have one size, then index_select, mul
        sparse_mask
        # guarded: sparse_checks.validated: indices lie within their sizes; SparseBlas.cpp
        # sampled_addmm_check_inputs: sizes, batches and dtypes
        sparse_sampled_addmm
        # checked: TensorShape.cpp split_with_sizes: no negative length;
        # split_with_sizes_copy_out: as many outs as parts, of their sizes and dtypes
        split_with_sizes_copy
        # view: TensorShape.cpp: inferSqueezeGeometry, inferUnsqueezeGeometry of dims that wrap
        # and stand once; in place: as_strided_ to these
        squeeze squeeze_ unsqueeze unsqueeze_
        # iterator: ReduceOps.cpp std_var: dims wrap and stand once; the correction is a double,
        # divided as such
        std std_mean var var_mean
        # library: SpectralOps.cpp stft: 0 < n_fft <= length, hop and win_length > 0, size of
        # window; as_strided within these, then FFT
        stft
        # checked: TensorShape.cpp sum_to_size: is_expandable_to(size, self.sizes()); then sum
        # and view
        sum_to_size
        # library: BatchLinearAlgebra.cpp linalg_svd: 2 dimensions or more, results of their own
        # sizes; then gesdd, whose info is read
        svd
        # view: TensorShape.cpp transpose: maybe_wrap_dim, then sizes and strides exchanged; t:
        # at most two dimensions
        swapaxes swapdims t transpose
        # guarded: TensorShape.cpp transpose_: maybe_wrap_dim, then strides exchanged;
        # sparse_checks._in_place: only in strided tensors
        swapaxes_ swapdims_ t_ transpose_
        # language: Constraints.cpp sym_constrain_range, TensorCompare.cpp _assert_scalar:
        # compare numbers
        sym_constrain_range sym_constrain_range_for_size
        # checked: cpu/IndexKernel.cpp: TORCH_CHECK_INDEX for each index; self has elements
        take
        # composite: TensorAdvancedIndexing.cpp take_along_dim: broadcast sizes, gather, which
        # checks each index
        take_along_dim
        # factory: run/natives/tensors.py tensor_of_list measures nested lists and compares
        # their lengths; overloads on numbers make one element
        tensor
        # composite: Linear.cpp tensordot: dims wrap, stand once and have one size; permute,
        # reshape, mm
        tensordot
        # composite: TensorShape.cpp tile: repeat, which fills at::empty of the product through
        # unfold, expand_as and copy_; a product that wraps fails in these
        tile
        # guarded: TensorConversions.cpp to: self or _to_copy; tensor_checks._copied: a copy has
        # a dtype or a device; tensor_checks._nested_dtype
        to
        # guarded: sparse_checks.validated: indices lie within their sizes; then zeros and
        # index_add_ or add_
        to_dense
        # guarded: sparse_checks._converted: indices of 32 bits count all elements of blocks and
        # batches
        to_sparse to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr
        # checked: Sorting.cpp meta topk: dim wraps, 0 <= k <= size(dim); NaN in order
        topk
        # checked: ReduceOps.cpp trace_cpu: a matrix; min(rows, columns) steps of both strides
        trace
        # guarded: Integration.cpp: slice, select, sub, mul and sum; tensor_checks._not_nested:
        # no nested tensor
        trapezoid trapz
        # library: BatchLinearAlgebra.cpp triangular_solve: linearSolveCheckInputs, equal
        # dtypes, then trtrs; sparse A: indices by sparse_checks.validated, MKL
        triangular_solve
        # checked: TriangularOps.cpp: 2 dimensions or more; loops over columns end at 0 and
        # size(-1) for any diagonal
        tril tril_ triu triu_
        # factory: TensorFactories.cpp tril_indices_cpu, triu_indices_cpu: row, col >= 0; empty
        # checks the size, and the loop ends with it
        tril_indices triu_indices
        # composite: Loss.cpp triplet_margin_loss: pairwise_distance, minimum, clamp_min;
        # dimensions must be as many
        triplet_margin_loss
        # iterator: BinaryOps.cpp: alias of div_ without rounding,
        # build_borrowing_binary_float_op; sparse: div_out_sparse_zerodim
        true_divide_
        # view: TensorShape.cpp unflatten: sizes that multiply up to that of the dim
        # (infer_size); then view
        unflatten
        # composite: torch/csrc/utils/tensor_flatten.h unflatten_dense_tensors: narrow and view,
        # which check sizes
        unflatten_dense_tensors
        # view: TensorShape.cpp unfold: dimension wraps, 0 <= size <= size of it, step > 0
        unfold
        # view: A copy of unfold: TensorShape.cpp: 0 <= size <= size of the dimension, step > 0
        unfold_copy
        # checked: Unique.cpp unique_consecutive_cpu_template: a result with a place for each
        # element, filled in one pass; dim: unique_dim_consecutive
        unique_consecutive
        # checked: Unique.cpp _unique_dim_cpu_template: only dim may be empty; std::sort on row
        # numbers, whose order is asymmetric with NaN too
        unique_dim
        # checked: Unique.cpp _unique_dim_cpu_template: only dim may be empty; one pass over
        # slices
        unique_dim_consecutive
        # guarded: TensorShape.cpp checks dims and lengths; parts have version counters of their
        # own: derivative_checks.SAVED_ARGUMENTS; enumerations._SUB_BYTE
        unsafe_chunk unsafe_split unsafe_split_with_sizes
        # guarded: tensor_checks._scaled: scales that positions are computed with; UpSample.h
        # upsample_*_common_check: sizes above 0
        upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
        upsample_nearest2d upsample_nearest3d upsample_trilinear3d
        # view: sparse/SparseTensor.cpp values: an alias of the values, with sizes of its own;
        # dicts: run/natives/dicts.py
        values
        # view: A copy of values, which asks for the layout
        values_copy
        # composite: TensorFactories.cpp vander: no negative N; an empty tensor of sizes that
        # are checked, then cumprod
        vander
        # checked: Blas.cpp dot_check: vectors of one dtype and number of elements
        vdot
        # guarded: TensorShape.cpp view: infer_size_dv, computeStride;
        # tensor_checks._bytes_view: no bytes of quantized tensors
        view view_copy
        # view: TensorShape.cpp view_as: view(other.size())
        view_as
        # view: ComplexHelper.h view_as_complex: a last dimension of 2, its stride 1, other
        # strides and the offset even; view_as_real doubles strides
        view_as_complex view_as_real
        # iterator: TensorCompare.cpp where_self_out: a condition of bools or bytes, one dtype,
        # TensorIterator; without values: nonzero_numpy
        where
        """,
    ),
    Group(
        "aten",
        Risk.COMPUTE,
        "a function of torch.linalg, torch.fft or torch.special, which checks what it is given",
        """
        # library: SpectralOps.cpp fft_c2c, fft_r2c, fft_c2r: dim wrapped, n >= 1, the input
        # padded or cut to n; then MKL
        fft_fft fft_hfft fft_ifft fft_ihfft fft_irfft fft_rfft
        # library: SpectralOps.cpp canonicalize_fft_shape_and_dim_args: unique dims, sizes > 0;
        # the input padded or cut to them; then MKL
        fft_fft2 fft_fftn fft_hfft2 fft_hfftn fft_ifft2 fft_ifftn fft_ihfft2 fft_ihfftn
        fft_irfft2 fft_irfftn fft_rfft2 fft_rfftn
        # guarded: enumerations.number_check: a dtype that exists; SpectralOps.cpp: empty
        # refuses n < 0, arange and mul_ fill it
        fft_fftfreq fft_rfftfreq
        # composite: SpectralOps.cpp default_alldims wraps the dims; roll by half of the sizes
        fft_fftshift fft_ifftshift
        # iterator: LinearAlgebra.cpp linalg_vector_norm: make_dim_mask checks the dims;
        # make_reduction, a TensorIterator
        linalg__powsum linalg_vector_norm
        # composite: BatchLinearAlgebra.cpp: linalg_cholesky_ex, then a look at info
        linalg_cholesky
        # library: BatchLinearAlgebra.cpp linalg_cholesky_ex: squareCheckInputs, a contiguous
        # copy; then LAPACK potrf
        linalg_cholesky_ex
        # composite: LinearAlgebra.cpp linalg_cond: linalg_svdvals, or linalg_matrix_norm and
        # linalg_inv_ex
        linalg_cond
        # checked: Cross.cpp linalg_cross: as many dims, both of size 3 in dim, the other sizes
        # broadcast by infer_size
        linalg_cross
        # library: LinearAlgebra.cpp _linalg_det, _linalg_slogdet: squareCheckInputs,
        # linalg_lu_factor_ex; then products of the diagonal
        linalg_det linalg_slogdet
        # view: LinearAlgebra.cpp linalg_diagonal: diagonal, which wraps the dims and bounds the
        # offset
        linalg_diagonal
        # guarded: matrix_checks.with_spare: one more matrix takes what is written beyond the
        # last
        linalg_eig
        # library: BatchLinearAlgebra.cpp _linalg_eigh: squareCheckInputs, uplo is L or U;
        # LAPACK syevd or heevd tells its workspace
        linalg_eigh linalg_eigvalsh
        # guarded: LinearAlgebraUtils.h squareCheckInputs: square matrices;
        # matrix_checks._eigenvalues: finite elements
        linalg_eigvals
        # library: BatchLinearAlgebra.cpp linalg_householder_product: m >= n >= k, tau of the
        # same batches; then LAPACK orgqr or ungqr
        linalg_householder_product
        # composite: BatchLinearAlgebra.cpp: linalg_inv_ex or linalg_solve_ex, then a look at
        # info
        linalg_inv linalg_solve
        # library: BatchLinearAlgebra.cpp _linalg_solve_ex, linalg_inv_ex: square A,
        # linearSolveCheckInputs; then LAPACK getrf, getrs
        linalg_inv_ex linalg_solve_ex
        # composite: BatchLinearAlgebra.cpp: linalg_ldl_factor_ex, then a look at info
        linalg_ldl_factor
        # library: BatchLinearAlgebra.cpp linalg_ldl_factor_ex: squareCheckInputs, pivots of n;
        # then LAPACK sytrf or hetrf
        linalg_ldl_factor_ex
        # guarded: matrix_checks._pivot_pairs: pivots name rows, negative ones in pairs
        linalg_ldl_solve
        # guarded: matrix_checks._least_squares: gelss gets a right side; BatchLinearAlgebra.cpp
        # checks the sizes
        linalg_lstsq
        # library: BatchLinearAlgebra.cpp linalg_lu_factor_ex, linalg_lu: a matrix, min(m, n)
        # pivots; then LAPACK getrf
        linalg_lu linalg_lu_factor_ex
        # composite: BatchLinearAlgebra.cpp: linalg_lu_factor_ex, then a look at info
        linalg_lu_factor
        # library: BatchLinearAlgebraKernel.cpp lu_solve_kernel: pivots of int32 from 1 to n,
        # sizes checked before; then LAPACK getrs
        linalg_lu_solve
        # composite: LinearAlgebra.cpp _matmul_impl: mm, bmm, mv, dot, which check their sizes
        linalg_matmul
        # composite: LinearAlgebra.cpp linalg_matrix_exp: square; matmul of batches sorted by
        # norm, squared as often as log2 of a norm tells
        linalg_matrix_exp
        # composite: LinearAlgebra.cpp linalg_matrix_norm: two different dims;
        # linalg_vector_norm, sum, amax or linalg_svdvals
        linalg_matrix_norm linalg_norm
        # guarded: matrix_checks._power: not to the least integer; LinearAlgebra.cpp: matmul of
        # square matrices
        linalg_matrix_power
        # composite: LinearAlgebra.cpp: linalg_svdvals, svd or linalg_eigh; then where, sum or
        # matmul
        linalg_matrix_rank linalg_pinv
        # guarded: matrix_checks._chain: at most 1024 matrices; LinearAlgebra.cpp multi_dot: mm,
        # mv
        linalg_multi_dot
        # library: BatchLinearAlgebra.cpp linalg_qr: a matrix, a known mode; then LAPACK geqrf
        # and orgqr with workspaces they ask for
        linalg_qr
        # library: BatchLinearAlgebra.cpp linalg_solve_triangular: linearSolveCheckInputs,
        # batches broadcast; then BLAS trsm
        linalg_solve_triangular
        # library: BatchLinearAlgebra.cpp _linalg_svd: checkIsMatrix; U, S, Vh made by its
        # sizes; then LAPACK gesdd
        linalg_svd linalg_svdvals
        # composite: LinearAlgebra.cpp: parts of the sizes by ArrayRef::slice, equal products;
        # reshape, linalg_inv or linalg_solve
        linalg_tensorinv linalg_tensorsolve
        # composite: BatchLinearAlgebra.cpp linalg_vander: N > 1; expand, cumprod and cat with
        # ones
        linalg_vander
        # composite: BatchLinearAlgebra.cpp linalg_vecdot: vdot, or mul and sum over a wrapped
        # dim
        linalg_vecdot
        # iterator: UnaryOps.cpp: build_borrowing_unary_op and its kin; sparse forms work on the
        # values; loops over coefficients in Math.h have constant bounds
        special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
        special_entr special_erfcx special_i0e special_i1 special_i1e special_log_ndtr
        special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
        special_modified_bessel_k1 special_ndtri special_scaled_modified_bessel_k0
        special_scaled_modified_bessel_k1 special_spherical_bessel_j0
        # guarded: tensor_checks._order: an order of at most 65536 bounds the steps of the
        # kernel (Math.h), which has no arrays
        special_chebyshev_polynomial_t special_chebyshev_polynomial_u
        special_chebyshev_polynomial_v special_chebyshev_polynomial_w
        special_hermite_polynomial_h special_hermite_polynomial_he special_laguerre_polynomial_l
        special_legendre_polynomial_p special_shifted_chebyshev_polynomial_t
        special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
        special_shifted_chebyshev_polynomial_w
        # iterator: UnaryOps.cpp, BinaryOps.cpp: aliases of operators on TensorIterator, such as
        # erf, igamma and xlogy; loops in Math.h are bounded
        special_digamma special_erf special_erfc special_erfinv special_exp2 special_expit
        special_expm1 special_gammainc special_gammaincc special_gammaln special_i0
        special_log1p special_logit special_psi special_round special_sinc special_xlogy
        # composite: SoftMax.cpp: softmax, log_softmax
        special_log_softmax special_softmax
        # iterator: ReduceOps.cpp: make_reduction_from_out_ty; dim_list_to_bitset and
        # maybe_wrap_dim check the dims
        special_logsumexp
        # composite: UnaryOps.cpp mvlgamma_check: dtype, and p of at least 1; then arange, which
        # checks its size, add, lgamma and sum
        special_multigammaln
        # composite: UnaryOps.cpp special_ndtr: erf, erfc and where
        special_ndtr
        # guarded: tensor_checks._zeta: no sum from below -65536; else pointwise, on
        # TensorIterator
        special_polygamma special_zeta
        # iterator: BinaryOps.cpp: build_borrowing_binary_op and its kin; TensorIterator
        # broadcasts the sizes; sparse forms compare them; loops in Math.h are bounded
        special_xlog1py
        """,
    ),
    Group(
        "aten",
        Risk.RANDOMNESS,
        "draws random numbers, of this process or of a generator that it is given",
        """
        # language: register_ops_utils.cpp make_generator_for_device refuses other devices;
        # seeds are read and set under the generator's lock
        Generator initial_seed seed
        # composite: Dropout.cpp _dropout_impl: 0 <= p <= 1; bernoulli_, div_, mul
        alpha_dropout alpha_dropout_ dropout dropout_
        # iterator: Distributions.cpp: TensorIterator over self; p is expanded to its sizes, and
        # lies in [0, 1]; MKL gets numel() of contiguous data
        bernoulli bernoulli_
        # guarded: Distributions.cpp binomial: TensorIterator; tensor_checks._binomial: no count
        # of nan
        binomial
        # iterator: DistributionTemplates.h: borrowing_nullary_op over self, without overlap in
        # itself; parameters are checked
        cauchy cauchy_ exponential exponential_ geometric geometric_ uniform uniform_
        # composite: Dropout.cpp _dropout_impl: 0 <= p <= 1; make_feature_noise asks for 2
        # dimensions; bernoulli_, div_, mul
        feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_
        # iterator: Distributions.cpp log_normal_: std > 0; a TensorIterator that refuses
        # overlapping memory
        log_normal log_normal_
        # checked: Distributions.cpp multinomial: 1 <= samples, categories <= 2**24, finite and
        # not negative; a search within the categories
        multinomial
        # composite: Dropout.cpp native_dropout_cpu: empty_like, bernoulli_, which checks 1 - p,
        # and mul
        native_dropout
        # iterator: DistributionTemplates.h normal_: std >= 0; contiguous data in blocks of 16
        # within its size, else a TensorIterator
        normal normal_ normal_functional
        # iterator: Distributions.cpp poisson: TensorIterator over self; sample_poisson refuses
        # negative rates
        poisson
        # factory: TensorFactories.cpp: an empty tensor of sizes that are checked, then uniform_
        # or normal_
        rand randn
        # guarded: the sizes of self (TensorFactories.cpp); tensor_checks._nested_dtype: no
        # quantized tensor of a nested one; sparse_checks.with_indices
        rand_like randint_like randn_like
        # checked: an empty tensor (TensorFactories.cpp), then random_; DistributionTemplates.h
        # random_from_to_impl: from < to, in range of the dtype
        randint
        # guarded: DistributionTemplates.h: from lies in the range of the dtype;
        # tensor_checks._random_from: there are floats above it
        random random_
        # checked: TensorFactories.cpp randperm: no negative n, none beyond the precision of the
        # dtype; exchanges elements i and i + random % (n - i)
        randperm
        # composite: Activation.cpp rrelu: lower <= upper; calls rrelu_with_noise with noise
        # that is contiguous and of the sizes of self
        rrelu rrelu_
        # guarded: tensor_checks._rrelu: noise is contiguous, of the size and dtype of self
        rrelu_with_noise rrelu_with_noise_
        # checked: Activation.cpp rrelu_with_noise: noise has the size of self, its dtype by
        # data_ptr; it is a dense clone
        rrelu_with_noise_functional
        """,
    ),
    Group(
        "aten",
        Risk.PROCESS_INFORMATION,
        "tells how this process or this thread is set, or where a value lies",
        """
        # language: TensorProperties.cpp, TensorImpl: reads or sets a flag or a field of the
        # tensor, none of its memory
        cudnn_is_acceptable get_device is_inference is_pinned
        # language: takes no tensor: gamma of a number (register_prim_ops.cpp), or a setting of
        # the process that at::Context and its hooks tell
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
