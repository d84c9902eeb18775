# Ascend's PyTorch adapter, the wheel torch-npu (tools/setup.sh --npu) or an installed one (TITAN_TORCH_NPU).
#   TorchNpu_FOUND, TITAN_TORCH_NPU (folder torch_npu), TITAN_TORCH_NPU_VERSION
#   wheel::torch_npu           headers (of CANN too) and libtorch_npu.so. CANN's libraries are not looked for: they are found
#                              when the program starts, through LD_LIBRARY_PATH as CANN's set_env.sh sets it.
#   TITAN_TORCH_NPU_RPATH      where a program in the build folder finds libtorch_npu.so, relative to itself
# The adapter is built for one exact version of torch; another one is refused here rather than at the first symbol.
set(TITAN_TORCH_NPU "$ENV{TITAN_TORCH_NPU}" CACHE PATH "Folder of an installed torch_npu package (default: the wheel in TITAN_DEPS)")
set(torch_npu_folder ${TITAN_DEPS}/npu/torch_npu)
if(TITAN_TORCH_NPU)
  get_filename_component(torch_npu_folder "${TITAN_TORCH_NPU}" REALPATH)
endif()
set(TorchNpu_FOUND FALSE)
if(NOT EXISTS ${torch_npu_folder}/lib/libtorch_npu.so)
  if(TITAN_TORCH_NPU)
    message(FATAL_ERROR "TITAN_TORCH_NPU=${TITAN_TORCH_NPU} has no lib/libtorch_npu.so")
  endif()
  return()
endif()
file(STRINGS ${torch_npu_folder}/version.py torch_npu_version_line REGEX "^__version__")
string(REGEX REPLACE ".*'([^']*)'.*" "\\1" TITAN_TORCH_NPU_VERSION "${torch_npu_version_line}")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" torch_npu_series "${TITAN_TORCH_NPU_VERSION}")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" torch_series "${TITAN_TORCH_VERSION}")
if(NOT torch_npu_series STREQUAL torch_series)
  message(WARNING "torch_npu ${TITAN_TORCH_NPU_VERSION} in ${torch_npu_folder} is built for torch ${torch_npu_series}, "
    "but torch is ${TITAN_TORCH_VERSION}: left out. Install torch-npu ${torch_series}.*")
  return()
endif()
set(TorchNpu_FOUND TRUE)
set(TITAN_TORCH_NPU_FOLDER ${torch_npu_folder})
message(STATUS "torch_npu ${TITAN_TORCH_NPU_VERSION} in ${torch_npu_folder}")
file(RELATIVE_PATH torch_npu_rpath ${CMAKE_BINARY_DIR} ${torch_npu_folder}/lib)
set(TITAN_TORCH_NPU_RPATH "$ORIGIN/${torch_npu_rpath}")

if(NOT TARGET wheel::torch_npu)
  add_library(wheel::torch_npu SHARED IMPORTED GLOBAL)
  set_target_properties(wheel::torch_npu PROPERTIES IMPORTED_LOCATION ${torch_npu_folder}/lib/libtorch_npu.so)
  target_include_directories(wheel::torch_npu SYSTEM INTERFACE ${torch_npu_folder}/include
    ${torch_npu_folder}/include/third_party/acl/inc ${torch_npu_folder}/include/third_party/hccl/inc
    ${TITAN_TORCH}/include/torch/csrc/distributed)
  # Its constructors register the operators, so it stays needed even when no symbol of it is named; the libraries it needs in
  # turn (CANN's, libtorch_python) are not there at link time.
  target_link_options(wheel::torch_npu INTERFACE LINKER:--no-as-needed LINKER:--allow-shlib-undefined)
  target_link_libraries(wheel::torch_npu INTERFACE wheel::torch_cpu)
endif()
