# Lists the primitives. A file schedules/primitives/<name>.cpp defines the function
# `const Primitive &<name>_primitive()`, and is found by pattern. The list is generated, because
# a linker drops an object of a static library that registers itself and to which nothing refers,
# and because a schedule may be built before the initializers of other files run.
file(GLOB primitive_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/schedules/primitives/*.cpp)
set(KUMIKO_PRIMITIVE_DECLARATIONS "")
set(KUMIKO_PRIMITIVE_RECORDS "")
foreach(file ${primitive_files})
  get_filename_component(name ${file} NAME_WE)
  string(APPEND KUMIKO_PRIMITIVE_DECLARATIONS "const Primitive &${name}_primitive();\n")
  string(APPEND KUMIKO_PRIMITIVE_RECORDS "        &${name}_primitive(),\n")
endforeach()
# Written only if the list changes, so that configuring does not rebuild.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/schedules/primitive_list.cpp @ONLY CONTENT
"// Made by schedules/primitives.cmake from the files in schedules/primitives/.
#include \"schedules/primitive.h\"

namespace kumiko {

@KUMIKO_PRIMITIVE_DECLARATIONS@
std::vector<const Primitive *> primitive_list() {
    return {
@KUMIKO_PRIMITIVE_RECORDS@    };
}

} // namespace kumiko
")
target_sources(kumiko_schedules PRIVATE ${CMAKE_BINARY_DIR}/schedules/primitive_list.cpp)
