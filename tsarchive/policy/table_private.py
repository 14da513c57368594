"""Operators of ``aten`` that begin with ``_``: those that models reach, and why the others wait."""

from __future__ import annotations

from typing import Final

from tsarchive.policy.risks import Group, Risk

PRIVATE: Final = (
    Group(
        "aten",
        Risk.COMPUTE,
        "part of the language: what Python's syntax and torch's own scripted functions turn into",
        """
        _assert _assert_int_or_pair _pair _quadruple _single _triple list_with_default type
        # iterator: BitwiseOps: BinaryOps.cpp: __and__/__or__ -> bitwise_and/or
        # (build_borrowing_binary_op); numbers and bools run operator.and_/or_
        __and__ __iand__ __ior__ __or__
        # language: natives/lists.py, dicts.py, bytestrings.py, builtins.py, strings.py:
        # lists, dicts and strings of Python; indices are those of Python, IndexError
        # beyond them
        __contains__ __getitem__ _set_item
        # language: implemented in Python: run/natives/integers
        __derive_index __range_length __round_to_zero_floordiv
        # checked: BinaryOpsKernel.cpp lshift_kernel/rshift_kernel: `if ((b < 0) || (b >=
        # bits)) return 0` (rshift: max_shift), no count reaches the machine out of range;
        # float base: multiplied by pow(2, other). All dtypes x edge counts: no fault.
        # Overloads on ints: run/natives/integers.py
        __ilshift__ __lshift__ __rshift__
        # guarded: tsarchive/run/tensor_checks.py _resized: a size and a scale for each
        # dimension of space
        __interpolate __upsample __upsample_bilinear __upsample_nearest
        # iterator: BinaryOps.cpp: __irshift__ -> TensorIterator::borrowing_binary_op;
        # BinaryOpsKernel.cpp rshift_kernel holds for shifts <0 or >=bits (gave 0 for -1
        # and 70, ran)
        __irshift__
        # language: implemented in Python: run/natives/values
        __is__ __isnot__ _unwrap_optional
        # iterator: BinaryOps.cpp build_borrowing_binary_op; BinaryOpsKernel.cpp
        # bitwise_*_kernel, logical bit operations. Overloads on ints/bools: run/natives
        __ixor__ __xor__
        # language: implemented in Python: run/natives/scalars
        __not__
        # language: implemented in Python: run/natives/control
        _get_tracing_state
        # checked: torch: ExpandUtils infer_size / ATen infer_size_impl: `The size of
        # tensor a (...) must match the size of tensor b` for any integers incl. negative
        # and INT64_MIN; result is a list only
        _infer_size
        # checked: register_prim_ops.cpp: c10::SmallVector sizes(ndim, 1) - negative or
        # huge ndim: std::length_error "SmallVector unable to grow"; sizes.at(1) of an
        # empty vector did not fault: reshape "shape [] is invalid for input" for 0 and 1
        # (one write in the inline buffer of 8); AT_ASSERT self.dim()==1; then reshape
        _ncf_unsqueeze
        # checked: register_prim_ops.cpp: sizes.at(i) / input_shape.get(i) are checked
        # ("_M_range_check" seen for -1, -2**31); then self.reshape(sizes)
        _ncf_view
        # language: implemented in Python: run/natives/lists
        _size_if_not_equal
        """,
    ),
    Group(
        "aten",
        Risk.COMPUTE,
        "what a public function of torch turns into when it is traced or scripted; it checks what "
        "it is given",
        """
        _add_relu _add_relu_ _coalesce _convolution _convolution_mode
        _fake_quantize_learnable_per_channel_affine
        _fake_quantize_learnable_per_tensor_affine _grouped_mm _indices_copy
        _local_scalar_dense _log_softmax _lu_with_info _native_multi_head_attention
        _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned _nnz
        _pack_padded_sequence _pad_packed_sequence _safe_softmax _softmax _sparse_addmm
        _sparse_log_softmax _sparse_mm _sparse_softmax _sparse_sum
        _transformer_encoder_layer_fwd _trilinear _unique _unique2 _upsample_bicubic2d_aa
        _upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d
        _upsample_nearest_exact2d _upsample_nearest_exact3d _values_copy _weight_norm
        # iterator: ReduceAllOps.cpp / TensorCompare.cpp: structured, make_reduction /
        # zero_numel_check_dims; ran with 0 elements: "Expected reduction dim ... non-zero
        # size", "dim 0 appears multiple times" (dim_list_to_bitset)
        _aminmax
        # composite: TensorCompare.cpp _assert_async_cpu: native::is_nonzero(self); a
        # message
        _assert_async _functional_assert_async
        # language: Checks a number / symbolic bounds: TORCH_CHECK, no tensor
        # (native/Constraints.cpp: `Invalid value range`, `Cannot ...`, scalar must be
        # integral)
        _assert_scalar
        # language: MetaTensor/TensorProperties: compares sizes, strides, dtype, device
        # and layout of the tensor with given ones; reads no memory
        _assert_tensor_metadata
        # composite: TensorConversions.cpp / LegacyBridge.cpp: self.to(dtype,
        # non_blocking)
        _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long
        _cast_Short
        # composite: quantized/QTensor.cpp _choose_qparams_per_tensor: self.min().item,
        # self.max().item, then quant_utils::ChooseQuantizationParams on two floats
        # (TORCH_CHECK min<=max: NaN is refused; 0 elements refused by min())
        _choose_qparams_per_tensor
        # view: UnaryOps.cpp/TensorMethods: self.alias() with the conjugate bit; sizes are
        # those of self
        _conj
        # composite: CompositeViewCopyKernels.cpp: the view, then clone()/copy_; sizes by
        # the view; as_strided etc. check in bounds
        _conj_copy
        # iterator: UnaryOps.cpp: CREATE_UNARY_META_FUNC / unary_op_impl(_float)_out,
        # build_borrowing_unary(_float)_op; tables of coefficients in Math.h are walked by
        # constant bounds, no index from data (erfcx: switch with default); layouts:
        # sparse forms run on values (SparseUnaryOps.cpp, SparseCsrTensorMath.cpp),
        # round.decimals pow(10, ...
        _conj_physical
        # composite: TensorFactories.cpp _dim_arange: at::arange(like.size(dim)); size
        # wraps dim
        _dim_arange
        # language: SparseTensor.cpp: sparse_dim / dense_dim of a tensor; strided gives 0
        # / dim
        _dimI _dimV
        # language: TensorCompare.cpp / SymInt: compares numbers, gives dep_token.clone()
        _functional_assert_scalar _functional_sym_constrain_range
        _functional_sym_constrain_range_for_size
        # guarded: tsarchive/run/tensor_checks.py _sum_to_size: sizes that the tensor can
        # have been expanded from
        _grad_sum_to_size
        # iterator: ReduceOps.cpp: self.all()/any() of a bool tensor
        # (TORCH_INTERNAL_ASSERT of kBool)
        _is_all_true _is_any_true
        # language: TensorProperties: a bit of the key set / a field of the TensorImpl
        _is_zerotensor _version
        # composite: register_special_ops.cpp: NoGradGuard, then fill_/uniform_/zero_ of
        # the tensor
        _no_grad_fill_ _no_grad_zero_
        # composite: Memory.cpp: CPU builds: "Cannot access accelerator device when none
        # is available"; else a copy
        _pin_memory
        # view: TensorShape.cpp: infer_size_dv + computeStride (view of a contiguous copy
        # or _unsafe_view of a clone); "shape ... is invalid for input of size", product
        # overflow: "numel: integer multiplication overflow"
        _reshape_copy
        # checked: register_prim_ops / TensorShape.cpp _reshape_from_tensor: TORCH_CHECK
        # dim==1, accessor<int64_t,1> (dtype "expected scalar type Long", meta "data is
        # not allocated yet", sparse "doesn't have storage": ran), then reshape
        _reshape_from_tensor
        # composite: register_prim_ops.cpp / TensorFactories: sizes of the tensor into a
        # new int64 tensor of dim() elements (nested: refused, ran)
        _shape_as_tensor
        # guarded: TensorFactories.cpp: sizes are those of self, checked by
        # computeStorageNbytes; tsarchive/run/tensor_checks.py _nested_dtype,
        # sparse_checks.py with_indices
        _to_copy
        # composite: TensorConversions.cpp: to(...) of a dtype or of the options of
        # another tensor, with no memory format: sizes of self, copy_ (nested to quantized
        # without a memory format is refused: "empty_strided not supported on quantized
        # tensors", ran)
        _to_cpu
        # guarded: Closed in the working tree of now (not by me; uncommitted or new):
        # derivative_checks SAVED_ARGUMENTS / SAVED_FOR_SPARSE and cloned integer results:
        # saved tensors are nobody else's (all samples ran again: exit 0, gradients
        # right). Bare torch is UNSAFE: shares memory with another version counter:
        # TensorShape.cpp _unsafe_view ...
        _unsafe_view
        """,
    ),
    Group(
        "aten", Risk.COMPUTE, "the operator of that name, for each tensor of a list", "_foreach_*"
    ),
    Group(
        "aten",
        Risk.RANDOMNESS,
        "draws random numbers of this process",
        "_no_grad_normal_ _no_grad_uniform_ _sample_dirichlet _standard_gamma",
    ),
    Group("aten", Risk.OUTPUT, "prints", "_print"),
    Group(
        "aten",
        Risk.PROCESS_INFORMATION,
        "tells what this machine and its torch can do",
        """
        # language: torch's own: register_special_ops.cpp/register_prim_ops: DataType-like
        # functions on numbers and strings (no tensor memory)
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
