# Lists the primitives. A file schedules/primitives/<name>.cpp defines the function
# `const Primitive &<name>_primitive()`, and is found by pattern.
kumiko_records(schedules/primitives "const Primitive &@name@_primitive()" KUMIKO_PRIMITIVE_DECLARATIONS
               KUMIKO_PRIMITIVE_RECORDS)
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
