# For tools/cross_aarch64.sh: GNU cross compiler over a folder of arm64 packages (TITAN_SYSROOT).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TITAN_SYSROOT)
set(CMAKE_SYSROOT ${TITAN_SYSROOT})
set(CMAKE_FIND_ROOT_PATH ${TITAN_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Libraries of libraries (libarrow's, libtorch's) are found here too when they are only needed in turn.
add_link_options(LINKER:-rpath-link,${TITAN_SYSROOT}/usr/lib/aarch64-linux-gnu
  LINKER:-rpath-link,${TITAN_SYSROOT}/lib/aarch64-linux-gnu)
