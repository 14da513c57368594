"""The ways into torch.jit, by name: what a process that must do without it has to close."""

from __future__ import annotations

# In torch._C.
BINDINGS = (
    "CompilationUnit", "_create_function_from_graph", "_create_function_from_trace",
    "_create_function_from_trace_with_dict", "_create_method_from_trace",
    "_import_ir_module_from_package", "_jit_script_class_compile", "_jit_script_compile",
    "_jit_script_compile_overload", "_jit_script_interface_compile",
    "_load_for_lite_interpreter", "_load_for_lite_interpreter_from_buffer",
    "_load_jit_module_from_bytes", "_load_jit_module_from_file", "import_ir_module",
    "import_ir_module_from_buffer", "parse_ir",
)  # fmt: skip
# Modules of torch.jit whose functions are public or lead to public ones.
MODULES = ("", "._script", "._trace", "._serialization", "._recursive", "._freeze", "._async")
