#include "schedules/page.h"

#include "machine/machine.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"
#include "schedules/schedule.h"

#include <cstring>
#include <sstream>

namespace kumiko {

namespace {

const char *kind_text(ArgumentKind kind) {
    switch (kind) {
    case ArgumentKind::Stage:
        return "stage";
    case ArgumentKind::Loop:
        return "loop";
    case ArgumentKind::Loops:
        return "loops";
    case ArgumentKind::Tensor:
        return "tensor";
    case ArgumentKind::Level:
        return "memory level";
    case ArgumentKind::Integer:
        return "number";
    case ArgumentKind::Integers:
        return "numbers";
    case ArgumentKind::Text:
        return "text";
    case ArgumentKind::Names:
        return "texts";
    case ArgumentKind::Condition:
        return "condition";
    case ArgumentKind::Schedule:
        return "directives";
    }
    return "";
}

// Escapes "<", so that "<loop>.o" is not read as HTML.
std::string prose(const std::string &text) {
    std::string out;
    for (const char c : text) out += c == '<' ? "&lt;" : std::string(1, c);
    return out;
}

void section(std::ostringstream &out, const Primitive &p) {
    out << "### " << p.name << "\n\n" << prose(p.summary) << "\n\n**Requires:** " << prose(p.requires_) << "\n\n";
    out << "| argument | is | |\n|---|---|---|\n";
    for (const Parameter &q : p.parameters) {
        out << "| `" << q.name << "`" << (q.optional ? " (optional)" : "") << " | " << kind_text(q.kind) << " | "
            << prose(q.description);
        if (!q.choices.empty()) {
            out << ": ";
            for (size_t c = 0; c < q.choices.size(); c++) out << (c ? ", `" : "`") << q.choices[c] << "`";
        }
        out << " |\n";
    }
    const Op op = example_op(p.example.op);
    // Fixed, so that the page is the same on every machine.
    Schedule s(op, Machine::named("x86-64-avx2"));
    for (const Directive &d : p.example.before) s.apply(d);
    out << "\n```\n" << op.to_string() << "```\n";
    if (!p.example.before.empty()) {
        out << "After\n\n```cpp\n";
        for (const Directive &d : p.example.before) out << cpp_text(d) << "\n";
        out << "```\n";
    }
    out << "the nest is\n\n```\n" << s.nest() << "```\n";
    s.apply(p.example.call);
    out << "and `"
        << (strcmp(p.name, "specialize") ? cpp_text(p.example.call)
                                         : std::string("s.specialize(M % 16 == 0, special);"))
        << "` makes of it\n\n```\n"
        << s.nest() << "```\n";
    out << "Saved: `" << directive_json(p.example.call).dump() << "`\n\n";
}

} // namespace

std::string primitive_section(const std::string &name) {
    std::ostringstream out;
    section(out, primitive(name));
    return out.str();
}

std::string primitives_page() {
    std::ostringstream out;
    out << "# The scheduling primitives\n\n"
           "<!-- Made by the command `kumiko docs primitives` from the records in schedules/primitives/; edit those. "
           "-->\n\n"
           "A schedule is a list of these. Applying one never changes what is computed, only the order in which it is, "
           "and where it is "
           "kept. Each example shows a formula, the nest before the call, the call, and the nest after it. In the "
           "nests, `for` is a "
           "serial loop; children stand two columns deeper.\n\n"
           "A method returns the handle of its stage, so calls can be chained. `split` returns the names of both "
           "loops, and `tile` those of all loops, so no call follows them. `fuse` returns the handle, which converts "
           "to the name of the new loop. A method that makes a stage, such as `rfactor`, returns the handle of that "
           "stage.\n\n"
           "```cpp\n"
           "auto C = s.stage(\"C\");\n"
           "auto [io, ii] = C.split(\"i\", 14); // loops \"i.o\" and \"i.i\"\n"
           "C.reorder({io, \"j\", ii}).unroll(ii);\n"
           "C.fuse(io, \"j\", \"tiles\").parallel(\"tiles\");\n"
           "```\n\n";
    out << "| group | primitives |\n|---|---|\n";
    const std::vector<const char *> groups = {"loops", "stages", "memory", "machine", "facts"};
    for (const char *g : groups) {
        out << "| " << g << " |";
        for (const Primitive *p : primitives()) {
            if (!strcmp(p->group, g)) out << " [`" << p->name << "`](#" << p->name << ")";
        }
        out << " |\n";
    }
    for (const char *g : groups) {
        std::string title = g;
        title[0] = static_cast<char>(toupper(title[0]));
        out << "\n## " << title << "\n\n";
        for (const Primitive *p : primitives()) {
            if (!strcmp(p->group, g)) section(out, *p);
        }
    }
    return out.str();
}

} // namespace kumiko
