# titan_npu_nopython: libtorch_python.so and libtorch.so for a process that has no interpreter (see nopython.cpp), in a folder
# of their own (build/nopython) so that no other program finds them by accident. Whoever links it also gets that folder as
# the first entry of its run path, and the library before libtorch_npu.so.
set(nopython_folder ${CMAKE_BINARY_DIR}/nopython)
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(torch_npu_lib ${TITAN_TORCH_NPU_FOLDER}/lib)
add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/python_names.cpp
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/make_stubs.py --nm ${CMAKE_NM}
    --wanted-by ${torch_npu_lib}/libtorch_npu.so
    --given-by ${TITAN_TORCH}/lib/libtorch_cpu.so ${TITAN_TORCH}/lib/libc10.so ${torch_npu_lib}/libnpu_profiler.so
      ${torch_npu_lib}/libtensorpipe.so ${torch_npu_lib}/libtorch_npu.so
    --not-names "(acl|Hccl|Msprof|rt[A-Z]|dl|pthread_).*"
    --data "_?PyExc_.*|_?Py.*_Type|_Py_.*Struct|_ZT[VIS].*" --data-of ${TITAN_TORCH}/lib/libtorch_python.so
    --call titan_python_missing --out ${CMAKE_CURRENT_BINARY_DIR}/python_names.cpp
  DEPENDS ${CMAKE_SOURCE_DIR}/cmake/make_stubs.py ${torch_npu_lib}/libtorch_npu.so
  COMMENT "Naming what libtorch_npu.so asks of Python" VERBATIM)
add_library(titan_npu_python_names OBJECT ${CMAKE_CURRENT_BINARY_DIR}/python_names.cpp)
# Their types are not those of the headers.
target_compile_options(titan_npu_python_names PRIVATE -w)
set_target_properties(titan_npu_python_names PROPERTIES UNITY_BUILD OFF)
add_library(titan_npu_nopython SHARED nopython.cpp $<TARGET_OBJECTS:titan_npu_python_names>)
titan_compile_options(titan_npu_nopython)
set_target_properties(titan_npu_nopython PROPERTIES OUTPUT_NAME torch_python UNITY_BUILD OFF
  LIBRARY_OUTPUT_DIRECTORY ${nopython_folder} INSTALL_RPATH "")
# libtorch.so holds no symbol of its own; that of a CUDA build pulls in every CUDA library.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp.new "\n")
configure_file(${CMAKE_CURRENT_BINARY_DIR}/empty.cpp.new ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp COPYONLY)
add_library(titan_npu_libtorch SHARED ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp)
set_target_properties(titan_npu_libtorch PROPERTIES OUTPUT_NAME torch UNITY_BUILD OFF
  LIBRARY_OUTPUT_DIRECTORY ${nopython_folder} INSTALL_RPATH "")
add_dependencies(titan_npu_nopython titan_npu_libtorch)

# titan_npu_without_python(TARGET): TARGET, a program or module in the build folder, runs libtorch_npu.so without an
# interpreter.
function(titan_npu_without_python target)
  target_link_options(${target} PRIVATE LINKER:--no-as-needed LINKER:--allow-shlib-undefined)
  target_link_libraries(${target} PRIVATE titan_npu_nopython titan_npu_libtorch wheel::torch_npu)
  # Before the run path of the build, which holds the real libtorch_python.so.
  set_target_properties(${target} PROPERTIES
    INSTALL_RPATH "$ORIGIN/nopython;${TITAN_TORCH_NPU_RPATH};${CMAKE_INSTALL_RPATH}")
endfunction()
