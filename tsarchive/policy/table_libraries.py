"""Operators outside of ``aten``, and classes bound from C++."""

from __future__ import annotations

from typing import Final

from tsarchive.policy.risks import Group, Risk

LIBRARIES: Final = (
    Group(
        "prim",
        Risk.COMPUTE,
        "part of the language: attributes of values, casts, containers, exceptions",
        """
        awaitable CallFunction CallMethod Constant CreateObject DictConstruct Enter Exit
        fork GetAttr H If isinstance ListConstruct ListUnpack Loop mH mT ndim SetAttr shape
        T TupleConstruct TupleSlice
        # iterator: UnaryOps.cpp abs on TensorIterator; numbers: run/natives/integers.py
        # and scalars.py
        abs
        # language: in Python: run/natives/futures.py
        awaitable_nowait awaitable_wait
        # language: not implemented: run/operators.py raises UnknownOperatorError
        ChunkSizes ConstantChunk
        # guarded: the memory of self under another version counter;
        # derivative_checks.SAVED_ARGUMENTS: formulas hold indices of their own
        data
        # language: run/natives/tensor_properties.py: an attribute of torch.Tensor, none
        # of its memory
        device dtype grad is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn is_mps is_mtia
        is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu itemsize
        layout name nbytes requires_grad
        # language: in Python: run/natives/values.py
        EnumName EnumValue IfThenElse ModuleContainerIndex TupleIndex unchecked_cast
        unchecked_unwrap_optional Uninitialized
        # language: in Python: run/natives/control.py
        IgnoredPythonOp RaiseException
        # language: in Python: run/natives/tensor_properties.py
        index type
        # language: in Python: run/natives/lists.py and scalars.py
        max min
        # factory: run/natives/tensor_numbers.py tensor_of_number: torch.scalar_tensor
        NumToTensor
        # language: in Python: run/natives/integers.py
        rangelist
        # language: in Python: run/natives/bytestrings.py
        StringIndex
        # language: run/natives/tensors.py to_list: torch.Tensor.tolist, where depth and
        # dtype are those of the tensor
        tolist
        # language: a tuple of Python, whose elements run/codegen.py binds by the length
        # of its static type
        TupleUnpack
        # checked: run/natives/tensor_groups.py: torch.cat or torch.stack
        VarConcat VarStack
        """
,
    ),
    Group("prim", Risk.OUTPUT, "prints", "Print"),
    Group(
        "prim", Risk.PROCESS_INFORMATION, "tells the time, or where a value lies", "id TimePoint"
    ),
    Group("prim", Risk.GLOBAL_STATE, "adds to counters that all code shares", "AddStatValue"),
    Group(
        "prim",
        Risk.PROCESSES,
        "has a function called in another process",
        "rpc_async rpc_remote rpc_sync",
    ),
    Group("prim", Risk.NATIVE_CODE, "calls a function of Python", "PythonOp"),
    Group(
        "prim",
        Risk.UNKNOWN,
        "made by torch's optimiser while code runs: no archive holds it",
        "*",
    ),
    Group(
        "quantized",
        Risk.COMPUTE,
        "a layer or a function of torch.ao.nn.quantized; what it is given is checked before",
        """
        add add_relu add_scalar add_scalar_relu batch_norm batch_norm2d batch_norm2d_relu
        batch_norm3d batch_norm3d_relu batch_norm_relu cat celu clamp conv1d conv1d_dynamic
        conv1d_prepack conv1d_relu conv1d_unpack conv2d conv2d_add conv2d_add_relu
        conv2d_dynamic conv2d_prepack conv2d_relu conv2d_unpack conv3d conv3d_dynamic
        conv3d_prepack conv3d_relu conv3d_unpack conv_prepack conv_transpose1d
        conv_transpose1d_dynamic conv_transpose1d_prepack conv_transpose1d_unpack
        conv_transpose2d conv_transpose2d_dynamic conv_transpose2d_prepack
        conv_transpose2d_unpack conv_transpose3d conv_transpose3d_dynamic
        conv_transpose3d_prepack conv_transpose3d_unpack conv_unpack elu embedding_4bit
        embedding_bag_4bit embedding_bag_byte embedding_bag_prepack embedding_bag_unpack
        embedding_byte group_norm hardswish instance_norm layer_norm leaky_relu linear
        linear_dynamic linear_dynamic_fp16 linear_leaky_relu linear_prepack
        linear_prepack_fp16 linear_relu linear_relu_dynamic linear_relu_dynamic_fp16
        linear_tanh linear_unpack linear_unpack_fp16 make_quantized_cell_params_dynamic
        matmul mul mul_relu mul_scalar mul_scalar_relu prelu quantized_gru_cell_dynamic
        quantized_lstm_cell_dynamic quantized_rnn_relu_cell_dynamic
        quantized_rnn_tanh_cell_dynamic relu6 sigmoid softmax threshold
        # library: RNN.cpp QuantizedCellParamsFP16 keeps two packed weights;
        # recurrent_checks and their apply_dynamic check what they are given
        make_quantized_cell_params_fp16
        """,
    ),
    Group("quantized", Risk.RANDOMNESS, "draws random numbers of this process", "dropout"),
    Group(
        "quantized _quantized",
        Risk.MEMORY,
        "keeps an object of C++ in the bytes of a tensor, where code can write",
        "linear_prepack_fp16_legacy linear_prepack_legacy",
    ),
    Group(
        "_quantized",
        Risk.MEMORY,
        "keeps an object of C++ in the bytes of a tensor, where code can write",
        """
        _wrapped_linear_prepack _wrapped_quantized_linear_prepacked
        wrapped_fbgemm_linear_fp16_weight wrapped_fbgemm_pack_gemm_matrix_fp16
        wrapped_quantized_linear
        """,
    ),
    Group(
        "quantized",
        Risk.MEMORY,
        "reads rows of bytes where indices, weights and mappings point that nobody checks",
        """
        embedding_bag_2bit_prepack embedding_bag_2bit_prepack_with_rowwise_min_max
        embedding_bag_2bit_rowwise_offsets embedding_bag_2bit_unpack embedding_bag_4bit_prepack
        embedding_bag_4bit_prepack_with_rowwise_min_max embedding_bag_4bit_rowwise_offsets
        embedding_bag_4bit_unpack embedding_bag_byte_prepack
        embedding_bag_byte_prepack_with_rowwise_min_max embedding_bag_byte_rowwise_offsets
        embedding_bag_byte_unpack
        """,
    ),
    Group(
        "quantized",
        Risk.MEMORY,
        "ends the process, or reads beyond its tensors, when their shapes do not fit together",
        """
        make_quantized_cell_params int4mm_packed_weight_cpu linear_dynamic_fp16_unpacked_weight
        linear_with_input_q_dq_qweight_dq_output_fp32
        linear_with_input_q_dq_qweight_dq_relu_output_fp32
        """,
    ),
    Group(
        "quantized",
        Risk.MEMORY,
        "writes to a tensor that it is given, of which no layer makes use",
        """
        add.out add.Scalar_out add_out add_relu.out add_relu.Scalar_out add_relu_out
        add_scalar_out add_scalar_relu_out cat_out cat_relu_out mul.out mul.Scalar_out mul_out
        mul_relu.out mul_relu.Scalar_out mul_relu_out mul_scalar_out mul_scalar_relu_out
        """,
    ),
    Group(
        "quantized",
        Risk.UNKNOWN,
        "an operator on quantized tensors that no layer of torch.ao.nn.quantized calls",
        """
        batch_norm1d batch_norm1d_relu cat_relu conv2d_dilation conv2d_groups
        conv2d_output_padding conv2d_padding conv2d_stride conv2d_transpose conv2d_unpack_sizes
        conv3d_dilation conv3d_groups conv3d_output_padding conv3d_padding conv3d_stride
        conv3d_transpose conv_transpose2d_dilation conv_transpose2d_groups
        conv_transpose2d_output_padding conv_transpose2d_padding conv_transpose2d_stride
        conv_transpose2d_transpose conv_transpose3d_dilation conv_transpose3d_groups
        conv_transpose3d_output_padding conv_transpose3d_padding conv_transpose3d_stride
        conv_transpose3d_transpose max_pool1d max_pool2d
        """,
    ),
    Group(
        "_quantized",
        Risk.UNKNOWN,
        "the operator of that name in quantized, under a name that builds for phones use",
        """
        add conv2d conv2d_prepack conv2d_relu conv3d conv3d_prepack conv3d_relu conv_transpose1d
        conv_transpose1d_prepack conv_transpose2d conv_transpose2d_prepack
        conv_transpose3d_prepack linear linear_dynamic linear_prepack linear_prepack_fp16
        """
,
    ),
    Group(
        "quantized _quantized",
        Risk.UNKNOWN,
        "an operator of a torch that is newer than this table",
        "*",
    ),
    Group(
        "torch_nn",
        Risk.COMPUTE,
        "a loss of torch.nn in chunks: written in Python with operators of aten",
        "_linear_cross_entropy_batch_chunked _linear_cross_entropy_batch_chunked_no_reduction",
    ),
    Group(
        "quantized_decomposed",
        Risk.COMPUTE,
        "quantizes values, back, finds scales, or computes with what is quantized: torch.ao and "
        "ExecuTorch write it in Python with operators of aten",
        """
        # composite: pt2/quantized_decomposed.py FUNCTIONS and
        # pte/natives/quantized_*.py: operators of torch that are allowed; planned.store
        _choose_qparams_per_token_asymmetric_impl add choose_qparams
        choose_qparams_per_token choose_qparams_per_token_asymmetric
        choose_qparams_symmetric convert_element_type dequantize_per_channel
        dequantize_per_channel_group dequantize_per_tensor dequantize_per_token
        fake_quant_per_channel mixed_linear mixed_mm quantize_per_channel
        quantize_per_channel_group quantize_per_tensor quantize_per_token
        # composite: pte/natives/quantized_embedding.py: index_select of weight and
        # scales; groups divide the rows; planned.store
        embedding_2bit embedding_4bit embedding_byte
        """,
    ),
    Group(
        "sparse",
        Risk.MEMORY,
        "packs sparse weights, or computes with them, and trusts their indices and blocks",
        "qlinear qlinear_dynamic qlinear_prepack qlinear_relu qlinear_relu_dynamic qlinear_unpack",
    ),
    Group(
        "prepacked",
        Risk.FOREIGN,
        "a layer of XNNPACK, which trusts shapes: in builds of torch for phones",
        """
        conv2d_clamp_prepack conv2d_clamp_run conv2d_transpose_clamp_prepack
        conv2d_transpose_clamp_run linear_clamp_prepack linear_clamp_run
        """
,
    ),
    Group(
        "mkldnn_prepacked",
        Risk.MEMORY,
        "packs weights for oneDNN, which ends the process at strides of zero, or runs with them",
        "conv2d_prepack conv2d_run",
    ),
    Group("onnx", Risk.COMPUTE, "the shape of a tensor, as ONNX asks for it", "Reshape Shape"),
    Group(
        "profiler",
        Risk.OUTPUT,
        "marks a span for a profiler, if one is running",
        "_call_end_callbacks_on_jit_fut _record_function_enter_new _record_function_exit",
    ),
    Group(
        "profiler",
        Risk.MEMORY,
        "keeps an object of C++ in the bytes of a tensor, where code can write",
        "_record_function_enter",
    ),
    Group(
        "c10d _c10d_functional _c10d_functional_autograd _dtensor symm_mem",
        Risk.NETWORK,
        "exchanges tensors with other processes and machines",
        "*",
    ),
    Group("debugprims", Risk.FILES, "reads a file of any name", "load_tensor"),
    Group("image torchvision", Risk.FILES, "reads or writes a file", "read_file write_file"),
    Group(
        "image torchvision",
        Risk.FOREIGN,
        "an operator of torchvision, which says what it checks",
        "*",
    ),
    Group(
        "torchaudio video_reader",
        Risk.FILES,
        "belongs to a library that reads and writes media files",
        "*",
    ),
    Group(
        "inductor inductor_prims mkl mkldnn onednn prims rngprims export debug_mode_ops debugprims "
        "_native",
        Risk.UNKNOWN,
        "made by torch.compile and torch.export, which check the arguments before: no archive "
        "calls it",
        "*",
    ),
    Group("static_runtime", Risk.UNKNOWN, "made by the static runtime: no archive calls it", "*"),
    Group("quantization", Risk.UNKNOWN, "an internal of collective communication", "*"),
    Group("_test", Risk.UNKNOWN, "made for torch's own tests", "*"),
    Group(
        "profiler sparse onnx mkldnn_prepacked prepacked",
        Risk.UNKNOWN,
        "an operator of a torch that is newer than this table",
        "*",
    ),
    Group(
        "delegate",
        Risk.COMPUTE,
        "a library of kernels, which reads a graph and weights from bytes of the file: native code",
        "XnnpackBackend",
    ),
    Group(
        "delegate",
        Risk.NATIVE_CODE,
        "a backend of ExecuTorch, which runs bytes of the file: native code",
        "*",
    ),
    Group(
        "executorch",
        Risk.COMPUTE,
        "a step between the instructions of a program and its memory plan",
        "adopt apart bounded count fixed give holds item store store_all take",
    ),
    Group(
        "executorch_prim",
        Risk.COMPUTE,
        "a number computed, a view made or a row copied by the runtime of ExecuTorch itself",
        """
        # language: pte/natives/scalars.py: numbers of Python, wrapped to 64 bits; a
        # divisor of 0 raises
        add ceil eq floordiv ge gt le lt mod mul ne neg round sub sym_float sym_int sym_ite
        sym_max sym_min sym_not truediv trunc
        # checked: pte/natives/slots.py copy_index: no negative index; planned.resize:
        # within the bound of the plan; then copy_
        et_copy_index
        # view: pte/natives/slots.py view: contiguous, of the dtype and dimensions of
        # out; tensor.view checks the size; set_ to that view
        et_view
        """,
    ),
    Group(
        "dim_order_ops",
        Risk.COMPUTE,
        "copies a tensor into another order of dimensions in memory",
        "_clone_dim_order _empty_dim_order _to_dim_order_copy",
    ),
    Group(
        "et_copy", Risk.COMPUTE, "copies a tensor from one device to another", "_d2h_copy _h2d_copy"
    ),
    Group("", Risk.FOREIGN, "belongs to a library that is not part of torch", "*"),
)

CLASSES: Final = (
    Group(
        "",
        Risk.COMPUTE,
        "packed weights of a layer; what they are made of is checked before",
        """
        quantized.Conv2dPackedParamsBase quantized.Conv3dPackedParamsBase
        quantized.EmbeddingPackedParamsBase quantized.LinearPackedParamsBase rnn.CellParamsBase
        """,
    ),
    Group(
        "",
        Risk.MEMORY,
        "weights packed for a library that trusts their shapes, strides and indices",
        "mkldnn.* sparse.*",
    ),
    Group(
        "",
        Risk.FOREIGN,
        "weights packed for XNNPACK, which trusts shapes: in builds of torch for phones",
        "xnnpack.*",
    ),
    Group("", Risk.OUTPUT, "a span for a profiler, if one is running", "profiler._RecordFunction"),
    Group("", Risk.GLOBAL_STATE, "turns a profiler of the process on and off", "profiling.*"),
    Group("", Risk.NETWORK, "talks to other processes and machines", "c10d.*"),
    Group("", Risk.PROCESSES, "another process that functions are called in", "dist_rpc.*"),
    Group(
        "",
        Risk.NATIVE_CODE,
        "runs a program that was compiled for a backend, which the archive brings",
        "__backends__.* _nnapi.*",
    ),
    Group("", Risk.COMPUTE, "names of operators, for the errors of a backend", "backendutils.*"),
    Group("", Risk.UNKNOWN, "an object that only Python knows", "aten.OpaqueObject"),
)
