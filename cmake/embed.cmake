# titan_embed(OUT NAMESPACE name=file …)
# Writes OUT, a C++ source that defines `const std::string_view NAMESPACE::name` with the content of each file. Done at
# configure time; an edited file configures again. A missing file leaves its text empty.
function(titan_embed out namespace)
  set(code "#include <string_view>\n\nnamespace ${namespace} {\n")
  foreach(pair ${ARGN})
    string(REGEX MATCH "^([^=]+)=(.*)$" matched "${pair}")
    set(name "${CMAKE_MATCH_1}")
    set(file "${CMAKE_MATCH_2}")
    set(content "")
    if(file AND EXISTS "${file}")
      file(READ "${file}" content)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    endif()
    string(APPEND code "extern const std::string_view ${name};\n"
      "const std::string_view ${name} = R\"EMBEDDED(${content})EMBEDDED\";\n")
  endforeach()
  string(APPEND code "}  // namespace ${namespace}\n")
  file(WRITE "${out}.new" "${code}")
  configure_file("${out}.new" "${out}" COPYONLY)  # keeps the time stamp of a file that did not change
endfunction()
