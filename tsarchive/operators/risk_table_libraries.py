"""Operators outside of ``aten``, and classes bound from C++."""

from __future__ import annotations

from typing import Final

from .risks import Group, Risk

LIBRARIES: Final = (
    Group(
        "prim",
        Risk.COMPUTE,
        "part of the language: attributes of values, casts, containers, exceptions",
        """
        # language: an instruction: run/codegen.py turns it into Python
        CallFunction CallMethod Constant CreateObject DictConstruct Enter Exit GetAttr If
        ListConstruct ListUnpack Loop SetAttr TupleConstruct TupleSlice awaitable fork
        isinstance
        # language: not implemented: run/operators.py raises UnknownOperatorError
        ChunkSizes ConstantChunk
        # language: in Python: run/natives/values.py
        EnumName EnumValue IfThenElse ModuleContainerIndex TupleIndex Uninitialized
        unchecked_cast unchecked_unwrap_optional
        # language: an attribute of torch.Tensor: a view or numbers, no memory of it read
        H T mH mT ndim shape
        # language: in Python: run/natives/control.py
        IgnoredPythonOp RaiseException
        # factory: run/natives/tensor_numbers.py tensor_of_number: torch.scalar_tensor
        NumToTensor
        # language: in Python: run/natives/bytestrings.py
        StringIndex
        # language: a tuple of Python, whose elements run/codegen.py binds by the length of its
        # static type
        TupleUnpack
        # checked: run/natives/tensor_groups.py: torch.cat or torch.stack
        VarConcat VarStack
        # iterator: UnaryOps.cpp abs on TensorIterator; numbers: run/natives/integers.py and
        # scalars.py
        abs
        # language: in Python: run/natives/futures.py
        awaitable_nowait awaitable_wait
        # guarded: the memory of self under another version counter;
        # derivative_checks.SAVED_ARGUMENTS: formulas hold indices of their own
        data
        # language: run/natives/tensor_properties.py: an attribute of torch.Tensor, none of its
        # memory
        device dtype grad is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn is_mps is_mtia
        is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu itemsize layout
        name nbytes requires_grad
        # language: in Python: run/natives/tensor_properties.py
        index type
        # language: in Python: run/natives/lists.py and scalars.py
        max min
        # language: in Python: run/natives/integers.py
        rangelist
        # language: run/natives/tensors.py to_list: torch.Tensor.tolist, where depth and dtype
        # are those of the tensor
        tolist
        """,
    ),
    Group(
        "prim",
        Risk.OUTPUT,
        "prints",
        """
        # language: natives/control.py print_values: Python writes the formatted values to
        # standard output
        Print
        """,
    ),
    Group(
        "prim",
        Risk.PROCESS_INFORMATION,
        "tells the time, or where a value lies",
        """
        # language: register_prim_ops.cpp: pushes the nanoseconds of a clock, takes no argument
        TimePoint
        # language: natives/values.py identity_number: id() of the value, 0 for None
        id
        """,
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
        "made by torch's optimizer: archives hold it where an optimized module was saved",
        "*",
    ),
    Group(
        "quantized",
        Risk.COMPUTE,
        "a layer or a function of torch.ao.nn.quantized; what it is given is checked before",
        """
        # iterator: BinaryOps.cpp check_inputs: dtypes and schemes are equal; qadd_kernel is a
        # TensorIterator that broadcasts
        add add_relu
        # iterator: BinaryOps.cpp _add_scalar_out: new scale and zero point; a TensorIterator
        # over input and result
        add_scalar add_scalar_relu
        # guarded: packed_checks._statistics: float32 vectors as long as there are channels;
        # Normalization.cpp checks the dims
        batch_norm batch_norm2d batch_norm2d_relu batch_norm3d batch_norm3d_relu batch_norm_relu
        # guarded: packed_checks.READS_MEMORY: plain inputs; TensorShape.cpp: qcat_nhwc_kernel
        # checks each size, else cat of floats
        cat
        # iterator: QuantizedOpKernels.cpp: a TensorIterator over input and result; per-tensor
        # scales, 8 or 32 bits by AT_DISPATCH_QINT_TYPES
        celu clamp elu hardswish leaky_relu relu6 sigmoid threshold
        # guarded: packed_checks.check_convolution: numbers, scales and biases of the weight,
        # when it is packed
        conv1d conv1d_dynamic conv1d_relu conv2d conv2d_dynamic conv2d_relu conv3d
        conv3d_dynamic conv3d_relu conv_transpose1d conv_transpose1d_dynamic conv_transpose3d
        conv_transpose3d_dynamic
        # guarded: packed_checks.check_convolution: rank, groups, steps, scales and bias fit the
        # weight; packed_checks.kept
        conv1d_prepack conv2d_prepack conv3d_prepack conv_prepack conv_transpose1d_prepack
        conv_transpose2d_prepack conv_transpose3d_prepack
        # library: qconv_unpack_impl.cpp: FBGEMM unpacks to a tensor of the packed sizes, oneDNN
        # clones; the bias is packed_checks.kept
        conv1d_unpack conv2d_unpack conv3d_unpack conv_transpose1d_unpack
        conv_transpose2d_unpack conv_transpose3d_unpack conv_unpack
        # guarded: packed_checks._added: sums are of the sizes that the convolution gives
        conv2d_add conv2d_add_relu
        # guarded: packed_checks._has_elements; check_convolution: what the packed weight says
        # of windows
        conv_transpose2d conv_transpose2d_dynamic
        # guarded: packed_checks._packed_rows: no pruned rows; FBGEMM checks each index against
        # the packed rows
        embedding_4bit embedding_byte
        # guarded: packed_checks._packed_bags: no pruned rows; offsets rise within the indices;
        # FBGEMM checks each index
        embedding_bag_4bit embedding_bag_byte
        # guarded: packed_checks.check_embedding: rows of 8 or 4 bits in whole bytes, a scale
        # and a zero point for each
        embedding_bag_prepack
        # guarded: packed_checks.with_own_scales: the rows get scales of their own;
        # qembeddingbag_unpack.cpp: packed sizes
        embedding_bag_unpack
        # guarded: packed_checks._affine_elements: there are elements, and weights are of
        # float32
        group_norm instance_norm
        # guarded: packed_checks._affine: weight and bias of float32; qnormalization.cpp:
        # _check_layer_norm_inputs, nothing for M == 0
        layer_norm
        # guarded: packed_checks.check_linear when it is packed; qlinear.cpp apply_impl: the
        # last size is that of the packed rows
        linear linear_relu
        # guarded: packed_checks.check_linear when it is packed; qlinear_dynamic.cpp: the last
        # size is that of the packed rows
        linear_dynamic linear_dynamic_fp16 linear_relu_dynamic linear_relu_dynamic_fp16
        # guarded: packed_checks.check_linear when it is packed; qlinear.cpp: only oneDNN as
        # engine, which checks the last size
        linear_leaky_relu linear_tanh
        # guarded: packed_checks.check_linear: a matrix, scales for its rows, a bias as long;
        # packed_checks.kept: the bias stays in place
        linear_prepack linear_prepack_fp16
        # library: LinearUnpackImpl.cpp: FBGEMM or oneDNN unpacks to a tensor of the packed
        # sizes; a tensor as packed weight is refused
        linear_unpack linear_unpack_fp16
        # guarded: packed_checks._cell_params: both biases are float32 vectors;
        # packed_checks.kept: they stay in place
        make_quantized_cell_params_dynamic
        # library: RNN.cpp QuantizedCellParamsFP16 keeps two packed weights; recurrent_checks
        # and their apply_dynamic check what they are given
        make_quantized_cell_params_fp16
        # guarded: packed_checks.READS_MEMORY: plain inputs; qmatmul.cpp check_inputs, then
        # matmul of dequantized tensors
        matmul
        # iterator: qmul.cpp check_inputs: dtypes and schemes are equal; qmul_kernel is a
        # TensorIterator that broadcasts
        mul mul_relu
        # iterator: qmul.cpp _mul_scalar_out: new scale and zero point; copy_ or a
        # TensorIterator over input and result
        mul_scalar mul_scalar_relu
        # guarded: packed_checks.READS_MEMORY: plain inputs; qrelu.cpp: one weight, or as many
        # as channels; a TensorIterator
        prelu
        # guarded: recurrent_checks._cell: states are matrices of the same batches, packed
        # weights have a row for each gate
        quantized_gru_cell_dynamic quantized_lstm_cell_dynamic quantized_rnn_relu_cell_dynamic
        quantized_rnn_tanh_cell_dynamic
        # guarded: packed_checks.READS_MEMORY: plain inputs; qsoftmax.cpp qsoftmax_naive:
        # softmax of the dequantized tensor
        softmax
        """,
    ),
    Group(
        "quantized",
        Risk.RANDOMNESS,
        "draws random numbers of this process",
        """
        # language: qdropout.cpp quantized_dropout: gives back the tensor that it is given
        dropout
        """,
    ),
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
        """,
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
        """
        # composite: torch/nn/functional.py: slice, linear and cross_entropy_loss
        _linear_cross_entropy_batch_chunked _linear_cross_entropy_batch_chunked_no_reduction
        """,
    ),
    Group(
        "quantized_decomposed",
        Risk.COMPUTE,
        "quantizes values, back, finds scales, or computes with what is quantized: torch.ao and "
        "ExecuTorch write it in Python with operators of aten",
        """
        # composite: pt2/quantized_decomposed.py FUNCTIONS and pte/natives/quantized_*.py:
        # operators of torch that are allowed; planned.store
        _choose_qparams_per_token_asymmetric_impl add choose_qparams choose_qparams_per_token
        choose_qparams_per_token_asymmetric choose_qparams_symmetric convert_element_type
        dequantize_per_channel dequantize_per_channel_group dequantize_per_tensor
        dequantize_per_token fake_quant_per_channel mixed_linear mixed_mm quantize_per_channel
        quantize_per_channel_group quantize_per_tensor quantize_per_token
        # composite: pte/natives/quantized_embedding.py: index_select of weight and scales;
        # groups divide the rows; planned.store
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
        unpack_prepacked_sizes_conv2d unpack_prepacked_sizes_linear
        """,
    ),
    Group(
        "mkldnn_prepacked",
        Risk.MEMORY,
        "packs weights for oneDNN, which ends the process at strides of zero, or runs with them",
        "conv2d_prepack conv2d_run",
    ),
    Group(
        "onnx",
        Risk.COMPUTE,
        "the shape of a tensor, as ONNX asks for it",
        """
        # view: register_prim_ops.cpp: the shape is 1-d and of int64 (const_data_ptr<int64_t>);
        # reshape checks the sizes
        Reshape
        # language: register_prim_ops.cpp: reads sizes() into a new tensor by shape_as_tensor
        Shape
        """,
    ),
    Group(
        "profiler",
        Risk.OUTPUT,
        "marks a span for a profiler, if one is running",
        """
        # checked: record_function_ops.cpp: an object by its class, or
        # cpp_custom_type_hack::cast, which checks the deleter of the storage
        _call_end_callbacks_on_jit_fut _record_function_exit
        # language: record_function_ops.cpp: makes a RecordFunction object of a name and a
        # string, no tensor
        _record_function_enter_new
        """,
    ),
    Group(
        "profiler",
        Risk.MEMORY,
        "keeps an object of C++ in the bytes of a tensor, where code can write",
        "_record_function_enter",
    ),
    Group(
        "c10d _c10d_functional _c10d_functional_autograd _dtensor fsdp symm_mem",
        Risk.NETWORK,
        "exchanges tensors with other processes and machines",
        "*",
    ),
    Group(
        "coor cuda",
        Risk.GLOBAL_STATE,
        "asks for devices and streams of the process, and chooses them",
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
        "_native _native_aot flex_gemm",
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
        """
        # library: XNNPACK plans its memory by the sizes of a graph, which verify reads before;
        # native code all the same
        XnnpackBackend
        """,
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
        """
        # language: run/memory_plan.py, pte: views of planned memory within their buffers, and lists
        # of Python
        adopt apart bounded count fixed give holds item store store_all take
        """,
    ),
    Group(
        "executorch_prim",
        Risk.COMPUTE,
        "a number computed, a view made or a row copied by the runtime of ExecuTorch itself",
        """
        # language: pte/natives/scalars.py: numbers of Python, wrapped to 64 bits; a divisor of
        # 0 raises
        add ceil eq floordiv ge gt le lt mod mul ne neg round sub sym_float sym_int sym_ite
        sym_max sym_min sym_not truediv trunc
        # checked: pte/natives/slots.py copy_index: no negative index; planned.resize: within
        # the bound of the plan; then copy_
        et_copy_index
        # view: pte/natives/slots.py view: contiguous, of the dtype and dimensions of out;
        # tensor.view checks the size; set_ to that view
        et_view
        """,
    ),
    Group(
        "dim_order_ops",
        Risk.COMPUTE,
        "copies a tensor into another order of dimensions in memory",
        """
        # composite: empty of sizes that torch checks, and copy_
        _clone_dim_order _empty_dim_order _to_dim_order_copy
        """,
    ),
    Group(
        "et_copy",
        Risk.COMPUTE,
        "copies a tensor from one device to another",
        """
        # composite: clone, which reads and writes by sizes and strides
        _d2h_copy _h2d_copy
        """,
    ),
    Group("", Risk.FOREIGN, "belongs to a library that is not part of torch", "*"),
)

CLASSES: Final = (
    Group(
        "",
        Risk.COMPUTE,
        "packed weights of a layer; what they are made of is checked before",
        """
        # guarded: packed_states.checked_state: weights, scales, biases and numbers fit before
        # C++ packs them
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
    Group(
        "",
        Risk.OUTPUT,
        "a span for a profiler, if one is running",
        """
        # language: RecordFunction: a name and a time
        profiler._RecordFunction
        """,
    ),
    Group("", Risk.GLOBAL_STATE, "turns a profiler of the process on and off", "profiling.*"),
    Group("", Risk.NETWORK, "talks to other processes and machines", "c10d.*"),
    Group("", Risk.PROCESSES, "another process that functions are called in", "dist_rpc.*"),
    Group(
        "",
        Risk.NATIVE_CODE,
        "runs a program that was compiled for a backend, which the archive brings",
        "__backends__.* _nnapi.*",
    ),
    Group(
        "",
        Risk.COMPUTE,
        "names of operators, for the errors of a backend",
        """
        # language: strings
        backendutils.*
        """,
    ),
    Group("", Risk.UNKNOWN, "an object that only Python knows", "aten.OpaqueObject"),
)
