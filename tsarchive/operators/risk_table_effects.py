"""Public operators of ``aten`` that do more than compute, or trust what they are given."""

from __future__ import annotations

from typing import Final

from .risks import Group, Risk

EFFECTS: Final = (
    Group(
        "aten",
        Risk.FILES,
        "maps a file of any name into memory, and makes or lengthens it when shared",
        "from_file",
    ),
    Group("aten", Risk.FILES, "writes a pickle to a file of any name", "save"),
    Group(
        "aten",
        Risk.OUTPUT,
        "gives a Python warning",
        """
        # language: run/natives/control.py: a warning of Python
        warn
        """,
    ),
    Group(
        "aten",
        Risk.GLOBAL_STATE,
        "sets the random numbers of the whole process: those that follow are known",
        "manual_seed",
    ),
    Group(
        "aten",
        Risk.RANDOMNESS,
        "sets the generator that it is given",
        """
        # language: GeneratorImpl::set_current_seed: a number that the generator keeps
        manual_seed.generator
        """,
    ),
    Group(
        "aten",
        Risk.PROCESSES,
        "asks or tells another process about a value that lives there",
        "confirmed_by_owner dist_backward is_owner local_value owner owner_name to_here",
    ),
    Group(
        "aten",
        Risk.MEMORY,
        "puts a tensor on other memory, or changes how much of it there is, beneath its views",
        """
        as_strided_ resize resize_ resize_as resize_as_ resize_as_sparse resize_as_sparse_ set
        set_ set_data shallow_copy_data_ sparse_resize sparse_resize_ sparse_resize_and_clear
        sparse_resize_and_clear_
        """,
    ),
    Group(
        "aten", Risk.MEMORY, "changes when memory of a device is given to others", "record_stream"
    ),
    Group("aten", Risk.MEMORY, "reads where offsets point that nobody checks", "segment_reduce"),
    Group(
        "aten",
        Risk.MEMORY,
        "a formula of automatic differentiation, which trusts what the operator itself checks",
        """
        adaptive_avg_pool3d_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward
        affine_grid_generator_backward avg_pool2d_backward avg_pool3d_backward batch_norm_backward
        batch_norm_backward_elemt batch_norm_backward_reduce binary_cross_entropy_backward
        conv_tbc_backward convolution_backward_overrideable cummaxmin_backward cumprod_backward
        diagonal_backward elu_backward embedding_backward embedding_dense_backward
        embedding_sparse_backward fake_quantize_per_channel_affine_cachemask_backward
        fake_quantize_per_tensor_affine_cachemask_backward fractional_max_pool2d_backward
        fractional_max_pool3d_backward gather_backward gelu_backward glu_backward glu_backward_jvp
        grid_sampler_2d_backward grid_sampler_3d_backward hardshrink_backward hardsigmoid_backward
        hardswish_backward hardtanh_backward huber_loss_backward index_select_backward
        infinitely_differentiable_gelu_backward leaky_relu_backward linear_backward
        log_sigmoid_backward logit_backward masked_scatter_backward masked_select_backward
        matmul_backward matrix_exp_backward max_pool2d_backward max_pool3d_with_indices_backward
        mish_backward mkldnn_adaptive_avg_pool2d_backward mkldnn_linear_backward
        mkldnn_linear_backward_input mkldnn_linear_backward_weights mkldnn_max_pool2d_backward
        mkldnn_max_pool3d_backward mkldnn_rnn_layer_backward mse_loss_backward
        multi_margin_loss_backward multilabel_margin_loss_backward native_batch_norm_backward
        native_dropout_backward native_group_norm_backward native_layer_norm_backward
        nll_loss2d_backward nll_loss_backward reflection_pad1d_backward reflection_pad2d_backward
        reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward
        replication_pad3d_backward rrelu_with_noise_backward select_backward sigmoid_backward
        silu_backward slice_backward smooth_l1_loss_backward soft_margin_loss_backward
        softplus_backward softshrink_backward tanh_backward threshold_backward to_dense_backward
        to_mkldnn_backward trace_backward unfold_backward upsample_bicubic2d_backward
        upsample_bilinear2d_backward upsample_linear1d_backward upsample_nearest1d_backward
        upsample_nearest2d_backward upsample_nearest3d_backward upsample_trilinear3d_backward
        value_selecting_reduction_backward
        """,
    ),
    Group(
        "aten",
        Risk.MEMORY,
        "keeps an object of C++ in the bytes of a tensor, where code can write",
        """
        fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation
        fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation
        fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix
        quantized_gru_cell quantized_lstm_cell quantized_rnn_relu_cell quantized_rnn_tanh_cell
        """,
    ),
    Group(
        "aten",
        Risk.MEMORY,
        "a kernel of one backend, which trusts what the public operator has checked",
        """
        batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts
        batch_norm_stats batch_norm_update_stats conv_depthwise3d convolution_overrideable
        cudnn_* lstm_mps_* miopen_* mps_* quantized_batch_norm quantized_max_pool1d
        quantized_max_pool2d quantized_max_pool3d slow_conv3d slow_conv3d_forward
        slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d
        thnn_conv2d
        """,
    ),
    Group(
        "aten",
        Risk.MEMORY,
        "keeps tensors in the form of oneDNN, whose kernels read memory from an address on",
        """
        mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear mkldnn_max_pool2d
        mkldnn_max_pool3d mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight
        mkldnn_rnn_layer to_mkldnn
        """,
    ),
    Group(
        "aten",
        Risk.UNKNOWN,
        "names dimensions, a prototype that torch had until 2.12",
        "align_as align_tensors align_to refine_names rename rename_",
    ),
    Group(
        "aten",
        Risk.UNKNOWN,
        "factors matrices by a kernel that torch has since 2.14 and nobody has looked at",
        "linalg_matrix_sqrth linalg_polar",
    ),
    Group("aten", Risk.UNKNOWN, "an operator of a torch that is newer than this table", "*"),
)
