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
        __and__ __contains__ __derive_index __getitem__ __iand__ __ilshift__ __interpolate __ior__
        __irshift__ __is__ __isnot__ __ixor__ __lshift__ __not__ __or__ __range_length
        __round_to_zero_floordiv __rshift__ __upsample __upsample_bilinear __upsample_nearest
        __xor__ _assert _assert_int_or_pair _get_tracing_state _infer_size _ncf_unsqueeze _ncf_view
        _pair _quadruple _set_item _single _size_if_not_equal _triple _unwrap_optional
        list_with_default type
        """,
    ),
    Group(
        "aten",
        Risk.COMPUTE,
        "what a public function of torch turns into when it is traced or scripted; it checks what "
        "it is given",
        """
        _add_relu _add_relu_ _aminmax _assert_async _assert_scalar _assert_tensor_metadata
        _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short
        _choose_qparams_per_tensor _coalesce _conj _conj_copy _conj_physical _convolution
        _convolution_mode _dim_arange _dimI _dimV _fake_quantize_learnable_per_channel_affine
        _fake_quantize_learnable_per_tensor_affine _functional_assert_async
        _functional_assert_scalar _functional_sym_constrain_range
        _functional_sym_constrain_range_for_size _grad_sum_to_size _grouped_mm _indices_copy
        _is_all_true _is_any_true _is_zerotensor _local_scalar_dense _log_softmax _lu_with_info
        _native_multi_head_attention _nested_tensor_from_mask
        _nested_tensor_from_mask_left_aligned _nnz _no_grad_fill_ _no_grad_zero_
        _pack_padded_sequence _pad_packed_sequence _pin_memory _reshape_copy
        _reshape_from_tensor _safe_softmax _shape_as_tensor _softmax _sparse_addmm
        _sparse_log_softmax _sparse_mm _sparse_softmax _sparse_sum _to_copy _to_cpu
        _transformer_encoder_layer_fwd _trilinear _unique _unique2 _unsafe_view
        _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa
        _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
        _values_copy _version _weight_norm
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
