# kumiko_records(<folder> <function> <declarations> <calls>): for each file <folder>/<name>.cpp, a
# declaration and a call of the function that it defines. <function> has @name@ for the file's name:
# "const Primitive &@name@_primitive()". Lists of records are generated, because a linker drops an
# object of a static library that registers itself and to which nothing refers, and because a list
# may be needed before the initializers of other files run.
function(kumiko_records folder function declarations calls)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  set(all_declarations "")
  set(all_calls "")
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    string(REPLACE "@name@" "${name}" declaration "${function}")
    string(REGEX MATCH "&?[a-z0-9_]+\\(\\)$" call "${declaration}")
    string(APPEND all_declarations "${declaration};\n")
    string(APPEND all_calls "        ${call},\n")
  endforeach()
  set(${declarations} "${all_declarations}" PARENT_SCOPE)
  set(${calls} "${all_calls}" PARENT_SCOPE)
endfunction()
