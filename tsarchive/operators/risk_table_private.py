"""Operators of ``aten`` that begin with ``_``: those that models reach, and why the others wait."""

from __future__ import annotations

from typing import Final

from .risks import Group, Risk

PRIVATE: Final = (
    Group(
        "aten",
        Risk.COMPUTE,
        "part of the language: what Python's syntax and torch's own scripted functions turn into",
        """
        # iterator: BinaryOps.cpp: build_borrowing_binary_op, bit by bit; overloads on ints and
        # bools are Python's (run/natives)
        __and__ __iand__ __ior__ __ixor__ __or__ __xor__
        # language: in Python: lists.py, dicts.py, bytestrings.py and builtins.py of
        # run/natives; an index beyond the ends raises
        __contains__ __getitem__ _set_item
        # language: in Python: run/natives/integers.py
        __derive_index __range_length __round_to_zero_floordiv
        # checked: BinaryOpsKernel.cpp lshift_kernel, rshift_kernel: counts below 0 or beyond
        # the bits have answers of their own; ints: run/natives/integers.py
        __ilshift__ __lshift__ __rshift__
        # guarded: tensor_checks._resized: a size and a scale for each dimension of space
        __interpolate __upsample __upsample_bilinear __upsample_nearest
        # iterator: BinaryOps.cpp: TensorIterator; BinaryOpsKernel.cpp rshift_kernel answers for
        # counts below 0 and beyond the bits
        __irshift__
        # language: in Python: run/natives/values.py
        __is__ __isnot__ _unwrap_optional
        # language: in Python: run/natives/scalars.py
        __not__
        # language: functions of Python in torch: lists and tuples of numbers, no memory of
        # tensors
        _assert _assert_int_or_pair _pair _quadruple _single _triple list_with_default type
        # language: in Python: run/natives/control.py
        _get_tracing_state
        # language: takes nothing, and tells whether torch traces
        _is_tracing
        # checked: ExpandUtils.cpp infer_size_impl: sizes that are equal, or one of them 1; the
        # result is a list
        _infer_size
        # checked: decompose_ops.cpp: self has one dimension; SmallVector<int64_t, 8> holds
        # sizes[1] for any ndim; reshape checks the sizes
        _ncf_unsqueeze
        # checked: decompose_ops.cpp: input_shape.get(i) throws beyond the list; reshape checks
        # the sizes
        _ncf_view
        # language: in Python: run/natives/lists.py
        _size_if_not_equal
        """,
    ),
    Group(
        "aten",
        Risk.COMPUTE,
        "what a public function of torch turns into when it is traced or scripted; it checks what "
        "it is given",
        """
        # iterator: BinaryOps.cpp add_relu: TensorIterator::binary_op broadcasts the two; out
        # and in place take its sizes
        _add_relu _add_relu_
        # iterator: ReduceOps.cpp, ReduceAllOps.cpp, TensorCompare.cpp: make_reduction;
        # zero_numel_check_dims and dim_list_to_bitset check the dims
        _aminmax
        # composite: TensorCompare.cpp _assert_async_cpu: is_nonzero(self), which refuses more
        # than one element
        _assert_async _functional_assert_async
        # language: Constraints.cpp sym_constrain_range, TensorCompare.cpp _assert_scalar:
        # compare numbers
        _assert_scalar
        # language: ComparisonUtils.cpp _assert_match: compares sizes, strides, dtype, device
        # and layout, and reads no memory
        _assert_tensor_metadata
        # composite: self.to(dtype, non_blocking)
        _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long
        _cast_Short
        # composite: QTensor.cpp _choose_qparams_per_tensor: min() and max(), which refuse empty
        # tensors; QuantUtils.h ChooseQuantizationParams: min <= max
        _choose_qparams_per_tensor
        # checked: SparseTensor.cpp: layout is checked; indices are valid by
        # sparse_checks.validated; flattening cannot overflow, as numel cannot
        _coalesce
        # view: UnaryOps.cpp conj: self.alias() with the conjugate bit set
        _conj
        # composite: the view of that name, which checks its arguments, then clone
        # (CompositeViewCopyKernels.cpp, which is generated)
        _conj_copy
        # iterator: UnaryOps.cpp: build_borrowing_unary_op and its kin; sparse forms work on the
        # values; loops over coefficients in Math.h have constant bounds
        _conj_physical
        # guarded: window_checks.check_steps: strides, padding and rows times stride that oneDNN
        # counts in 32 bits; Convolution.cpp checks sizes
        _convolution _convolution_mode
        # language: SparseTensor.cpp: the numbers of sparse and dense dimensions, of sparse
        # tensors only
        _dimI _dimV
        # composite: TensorFactories.cpp _dim_arange: arange of like.size(dim), whose dim wraps
        _dim_arange
        # checked: FakeQuantPerChannelAffine.cpp: one scale and zero point per size(axis), axis
        # within dims; the rest is TensorIterator
        _fake_quantize_learnable_per_channel_affine
        # checked: FakeQuantPerTensorAffine.cpp: select(0, 0).item() for scale and zero point,
        # which lies between quant_min and quant_max
        _fake_quantize_learnable_per_tensor_affine
        # language: Constraints.cpp, TensorCompare.cpp: compare numbers, and give
        # dep_token.clone()
        _functional_assert_scalar _functional_sym_constrain_range
        _functional_sym_constrain_range_for_size
        # guarded: tensor_checks._sum_to_size: sizes that the tensor can have been expanded from
        _grad_sum_to_size
        # guarded: tensor_checks._grouped_mm: offsets rise within the dimension that they divide
        _grouped_mm
        # checked: SparseTensor.cpp, SparseCsrTensor.cpp: the layout is checked; the result is a
        # clone, so nothing shares the indices
        _indices_copy _values_copy
        # iterator: ReduceOps.cpp _is_all_true, _is_any_true: all() or any() of a tensor of
        # bools
        _is_all_true _is_any_true
        # language: TensorProperties.cpp, TensorImpl: reads or sets a flag or a field of the
        # tensor, none of its memory
        _is_zerotensor _version
        # checked: Scalar.cpp _local_scalar_dense_cpu: "Empty tensor not supported"; it reads
        # the first element only, meta is refused
        _local_scalar_dense
        # checked: SoftMax.cpp: maybe_wrap_dim, half_to_float refused on CPU, contiguous copies;
        # the kernel goes by outer, dim and inner sizes
        _log_softmax _softmax
        # composite: BatchLinearAlgebra.cpp _lu_with_info: linalg_lu_factor_ex, which wants 2
        # dimensions and pivoting on CPU
        _lu_with_info
        # guarded: tensor_checks._attention: heads above 0; attention.cpp checks embed_dim, qkv
        # sizes and the shapes of masks
        _native_multi_head_attention _transformer_encoder_layer_fwd
        # checked: NestedTensorMath.cpp: 3-d input, 2-d bool mask of its first two sizes; rows
        # are as many as the mask counts, at most all
        _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned
        # language: SparseTensor.cpp: a field of SparseTensorImpl; other layouts are refused or
        # told a constant
        _nnz
        # composite: register_special_ops.cpp: fill_ or zero_ under NoGradGuard
        _no_grad_fill_ _no_grad_zero_
        # checked: PackedSequence.cpp: lengths 1-d int64 on CPU, one per batch, above 0 and
        # falling; slice() clamps to the input, cat and view check
        _pack_padded_sequence
        # guarded: recurrent_checks._padded: batch_sizes fall, are above 0 and add up to the
        # rows of data
        _pad_packed_sequence
        # composite: Memory.cpp: a copy in memory of an accelerator's host; raises where there
        # is no accelerator
        _pin_memory
        # view: TensorShape.cpp reshape: infer_size_dv compares the numbers of elements,
        # computeStride finds the strides; else clone and _unsafe_view
        _reshape_copy
        # checked: TensorShape.cpp _reshape_from_tensor: a shape of one dimension, read by
        # accessor<int64_t, 1>, which checks its dtype; then reshape
        _reshape_from_tensor
        # composite: attention.cpp _safe_softmax: softmax, eq, all, where
        _safe_softmax
        # composite: at::tensor(self.sizes()): int64 numbers; nested tensors raise
        # (NestedTensorImpl.cpp sizes_custom)
        _shape_as_tensor
        # composite: SparseTensorMath.cpp _sparse_addmm: addmm of a sparse and a dense matrix
        _sparse_addmm
        # checked: sparse/SoftMax.cpp: dim within dims; offsets and pools come from valid
        # indices; a vector too large for memory raises
        _sparse_log_softmax _sparse_softmax
        # composite: SparseTensorMath.cpp _sparse_mm: _sparse_sparse_matmul, addmm with zeros or
        # the CSR reduction, which check sizes and layout
        _sparse_mm
        # composite: SparseTensorMath.cpp _sparse_sum: dim_list_to_bitset, then sum of values
        # and index_select of the kept rows of indices
        _sparse_sum
        # guarded: the sizes of self (TensorFactories.cpp); tensor_checks._nested_dtype: no
        # quantized tensor of a nested one; sparse_checks.with_indices
        _to_copy
        # composite: TensorConversions.cpp to: self, or a copy (copy_) into an empty tensor of
        # the same sizes
        _to_cpu
        # checked: Linear.cpp _trilinear: unroll_dim and the lists of dims are checked; then
        # unsqueeze, narrow and sumproduct_pair, which check sizes
        _trilinear
        # checked: Unique.cpp: works on a contiguous or sorted copy; outputs have numel places,
        # counts are at most numel; bool counts in two places
        _unique _unique2
        # guarded: the memory of self under another version counter;
        # derivative_checks.SAVED_ARGUMENTS: formulas hold indices of their own
        _unsafe_view
        # guarded: tensor_checks._filtered: scales fit the sizes of input and output
        _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa
        # guarded: tensor_checks._scaled: no tiny scales, those of quantized tensors fit their
        # sizes; kernels clamp the source index
        _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
        # guarded: tensor_checks._weight_norm: g has one number for each slice of v along dim
        _weight_norm
        """,
    ),
    Group(
        "aten",
        Risk.COMPUTE,
        "the operator of that name, for each tensor of a list",
        """
        # guarded: tensor_checks.check_lists: lists are of one length; ForeachOpsKernels.cpp:
        # the operator of that name for each
        _foreach_*
        """,
    ),
    Group(
        "aten",
        Risk.RANDOMNESS,
        "draws random numbers of this process",
        """
        # composite: register_special_ops.cpp: NoGradGuard, then normal_ (std >= 0) or uniform_
        # (from <= to)
        _no_grad_normal_ _no_grad_uniform_
        # iterator: Distributions.cpp: TensorIterator; sample_gamma accepts with a chance above
        # 0 in each turn, also for nan and negative alpha
        _sample_dirichlet _standard_gamma
        """,
    ),
    Group(
        "aten",
        Risk.OUTPUT,
        "prints",
        """
        # language: register_prim_ops.cpp: prints a string; no tensor
        _print
        """,
    ),
    Group(
        "aten",
        Risk.PROCESS_INFORMATION,
        "tells what this machine and its torch can do",
        """
        # language: takes no tensor: gamma of a number (register_prim_ops.cpp), or a setting of
        # the process that at::Context and its hooks tell
        _cufft_get_plan_cache_max_size _cufft_get_plan_cache_size _get_cpu_capability
        _nnpack_available
        """,
    ),
    Group(
        "aten",
        Risk.GLOBAL_STATE,
        "changes a cache that all code of the process shares",
        "_cufft_clear_plan_cache _cufft_set_plan_cache_max_size",
    ),
    Group(
        "aten",
        Risk.MEMORY,
        "trusts the indices that it is given, and reads or writes where they point",
        """
        _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo _embedding_bag
        _embedding_bag_forward_only _index_put_impl _index_put_impl_ _no_grad_embedding_renorm_
        _pad_circular _rowwise_prune _sobol_engine_draw _sobol_engine_ff_
        _sobol_engine_initialize_state_ _sobol_engine_scramble_ _unsafe_index _unsafe_index_put
        _unsafe_masked_index _unsafe_masked_index_put_accumulate
        """,
    ),
    Group(
        "aten",
        Risk.MEMORY,
        "makes a tensor that claims sizes, strides or indices which nobody checks",
        """
        _add_batch_dim _coalesced _coalesced_ _indices _lazy_clone _neg_view
        _neg_view_copy _remove_batch_dim _reshape_alias _reshape_alias_copy _resize_output
        _resize_output_ _sparse_bsc_tensor_unsafe _sparse_bsr_tensor_unsafe
        _sparse_compressed_tensor_unsafe _sparse_compressed_tensor_with_dims
        _sparse_coo_tensor_unsafe _sparse_coo_tensor_with_dims
        _sparse_coo_tensor_with_dims_and_tensors _sparse_csc_tensor_unsafe
        _sparse_csr_tensor_unsafe _values
        """,
    ),
    Group(
        "aten",
        Risk.MEMORY,
        "ends the process, or reads beyond its tensors, when their shapes do not fit together",
        """
        _adaptive_avg_pool2d _adaptive_avg_pool3d _autocast_to_reduced_precision
        _batch_norm_no_update _cholesky_solve_helper _chunk_cat _compute_linear_combination
        _cummax_helper _cummin_helper _dyn_quant_matmul_4bit _dyn_quant_pack_4bit_weight _fft_c2c
        _fft_c2r _fft_r2c _foreach_copy _foreach_copy_ _fused_moving_avg_obs_fq_helper
        _fused_moving_avg_obs_fq_helper_functional _new_zeros_with_same_feature_meta
        _native_batch_norm_legit _native_batch_norm_legit_functional
        _native_batch_norm_legit_no_training _nnpack_spatial_convolution _pdist_forward
        _saturate_weight_to_fp16 _scaled_dot_product_attention_math _scaled_mm _scaled_mm_v2 _stack
        _tensor_to_list _transform_bias_rescale_qkv _weight_norm_interface
        """,
    ),
    Group(
        "aten",
        Risk.MEMORY,
        "a step of a nested tensor that trusts the sizes and offsets of the step before",
        "_nested_*",
    ),
    Group(
        "aten",
        Risk.MEMORY,
        "a kernel of one GPU library, which trusts what the public operator has checked",
        "_cslt_* _cudnn_* _efficient_attention_* _flash_attention_* _mps_* _triton_* _lstm_mps",
    ),
    Group(
        "aten",
        Risk.MEMORY,
        "updates the weights of an optimizer in place, and trusts that its lists fit together",
        "_amp_* _fused_adagrad* _fused_adam* _fused_sgd*",
    ),
    Group("aten", Risk.UNKNOWN, "made for torch's own tests", "_foobar _test_*"),
    Group(
        "aten",
        Risk.UNKNOWN,
        "an internal step of other operators, which call it with arguments that they have checked",
        "_*",
    ),
)
