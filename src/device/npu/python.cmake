# libtitan_npu_python.so: the way to torch_npu's wheel through an embedded interpreter (python_route.cpp), and the module proper
# that it loads once the interpreter has brought libtorch_npu.so. Not built where there is no libpython with its headers.
find_package(Python3 COMPONENTS Interpreter Development.Embed)
if(NOT Python3_Development.Embed_FOUND)
  message(STATUS "NPU module through an interpreter: not built (no libpython with headers: libpython3-dev)")
  return()
endif()
message(STATUS "NPU module through an interpreter: Python ${Python3_VERSION}, ${Python3_LIBRARIES}")
add_library(titan_npu_wheel MODULE npu_backend.cpp ending.cpp peak_flops.cpp process_group.cpp tracing.cpp)
titan_compile_options(titan_npu_wheel)
target_include_directories(titan_npu_wheel PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(titan_npu_wheel PRIVATE TITAN_MODULE_BUILD="${TITAN_MODULE_BUILD}"
  TITAN_TORCH_NPU_VERSION="${TITAN_TORCH_NPU_VERSION}")
target_link_options(titan_npu_wheel PRIVATE LINKER:--no-as-needed LINKER:--allow-shlib-undefined)
target_link_libraries(titan_npu_wheel PRIVATE fmt::fmt wheel::torch_npu)
# No run path: every library that it needs is in the process by then.
set_target_properties(titan_npu_wheel PROPERTIES UNITY_BUILD OFF LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python
  INSTALL_RPATH "")

add_library(titan_npu_python MODULE python_route.cpp)
titan_compile_options(titan_npu_python)
target_include_directories(titan_npu_python PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(titan_npu_python PRIVATE TITAN_MODULE_BUILD="${TITAN_MODULE_BUILD}"
  TITAN_TORCH_VERSION="${TITAN_TORCH_VERSION}" TITAN_TORCH_NPU_VERSION="${TITAN_TORCH_NPU_VERSION}")
target_link_libraries(titan_npu_python PRIVATE fmt::fmt Python3::Python wheel::torch_cpu)
set_target_properties(titan_npu_python PROPERTIES UNITY_BUILD OFF INSTALL_RPATH "${Python3_LIBRARY_DIRS}")
add_dependencies(titan_npu_python titan_npu_wheel)
