# libtitan_npu.so, beside the binary: torch_npu's wheel in a process without an interpreter. No symbol of the core is linked
# in: they come from the binary.
add_library(titan_npu MODULE npu_backend.cpp ending.cpp peak_flops.cpp process_group.cpp tracing.cpp)
titan_compile_options(titan_npu)
set_target_properties(titan_npu PROPERTIES UNITY_BUILD OFF)
target_include_directories(titan_npu PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(titan_npu PRIVATE TITAN_MODULE_BUILD="${TITAN_MODULE_BUILD}"
  TITAN_TORCH_NPU_VERSION="${TITAN_TORCH_NPU_VERSION}")
target_link_libraries(titan_npu PRIVATE fmt::fmt)
titan_npu_without_python(titan_npu)
