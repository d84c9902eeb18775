# titan_area(NAME SOURCES file… DEPENDS area… LIBRARIES target…)
# One static library per area. DEPENDS names other areas (see tools/check_layers.py), LIBRARIES third-party targets.
function(titan_area name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(titan_${name} STATIC ${arg_SOURCES})
  list(TRANSFORM arg_DEPENDS PREPEND titan_)
  titan_compile_options(titan_${name})
  target_include_directories(titan_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(titan_${name} PUBLIC ${arg_DEPENDS} ${arg_LIBRARIES})
endfunction()

# titan_test(AREA SOURCES file… [LIBRARIES target…] [LABELS label…])
# One test program per area; every TEST in it becomes a CTest entry.
function(titan_test area)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  add_executable(${area}_test ${arg_SOURCES})
  titan_compile_options(${area}_test)
  target_include_directories(${area}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/src)
  target_compile_definitions(${area}_test PRIVATE TITAN_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    TITAN_BINARY="$<TARGET_FILE_DIR:titan>/titan")
  target_link_libraries(${area}_test PRIVATE ${arg_LIBRARIES} GTest::gmock GTest::gtest GTest::gtest_main)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  # One CTest entry per area keeps libtorch's load time out of every single test; gtest prints the claims.
  add_test(NAME ${area} COMMAND ${area}_test)
  set_tests_properties(${area} PROPERTIES TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "OMP_NUM_THREADS=1" LABELS "${arg_LABELS}")
endfunction()

function(titan_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -Wno-missing-field-initializers -Wno-error=maybe-uninitialized
    -Wno-error=free-nonheap-object -Wno-error=stringop-overflow -Wno-error=array-bounds -Wno-error=restrict
    -Wno-error=stringop-overread -Wno-error=deprecated-declarations)
  # libtorch's wheel ships fmt 12 headers in its include folder; ours must come first.
  target_include_directories(${target} BEFORE PRIVATE ${TITAN_SYSTEM_FMT})
endfunction()
