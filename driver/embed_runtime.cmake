# The runtime that goes into every generated library (driver/runtime_objects.cpp), carried in the
# binary as bytes: compiled apart from ours, for any processor of this architecture and without
# sanitizers; and as sources, for libraries of other architectures.
function(kumiko_embed_runtime target)
  set(objects)
  foreach(part errors cpu_features memory threads models selections)
    set(object ${CMAKE_BINARY_DIR}/embedded/${part}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/embedded
      COMMAND ${CMAKE_C_COMPILER} -std=c11 -O2 -g0 -fPIC -ffunction-sections -fdata-sections
              -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -I${CMAKE_SOURCE_DIR}/runtime
              -c ${CMAKE_SOURCE_DIR}/runtime/${part}.c -o ${object}
      DEPENDS ${CMAKE_SOURCE_DIR}/runtime/${part}.c ${CMAKE_SOURCE_DIR}/runtime/kumiko_runtime.h
              ${CMAKE_SOURCE_DIR}/runtime/kumiko_context.h
              ${CMAKE_SOURCE_DIR}/runtime/cpu_features.h ${CMAKE_SOURCE_DIR}/runtime/fill_workspaces.h
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/*.c ${CMAKE_SOURCE_DIR}/runtime/*.h)
  set(source ${CMAKE_SOURCE_DIR}/driver/runtime_objects.cpp)
  set_source_files_properties(${source} PROPERTIES
    OBJECT_DEPENDS "${objects};${sources}"
    SKIP_PRECOMPILE_HEADERS ON
    COMPILE_DEFINITIONS "KUMIKO_EMBEDDED=\"${CMAKE_BINARY_DIR}/embedded\";KUMIKO_RUNTIME_SOURCES=\"${CMAKE_SOURCE_DIR}/runtime\"")
endfunction()
