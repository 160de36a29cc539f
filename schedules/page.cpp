#include "schedules/page.h"

#include "machine/machine.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"
#include "schedules/schedule.h"
#include "support/prose.h"

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
    out << "### " << p.name << "\n\n"
        << wrap_prose(prose(p.summary)) << "\n\n"
        << wrap_prose("**Requires:** " + prose(p.requires_)) << "\n\n";
    out << "| argument | kind | meaning |\n|---|---|---|\n";
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
        out << "With the directives\n\n```cpp\n";
        for (const Directive &d : p.example.before) out << cpp_text(d) << "\n";
        out << "```\n";
    }
    out << "the nest is\n\n```\n" << s.nest() << "```\n";
    s.apply(p.example.call);
    out << "`" << cpp_text(p.example.call) << "` changes it to\n\n```\n" << s.nest() << "```\n";
    out << "Saved: `" << directive_json(p.example.call).dump() << "`\n\n";
}

const char *const primitives_preface = R"page(# The scheduling primitives

<!-- Made by `kumiko docs primitives` from the records in schedules/primitives/; edit those. -->

A schedule is a list of directives; each directive calls a primitive. A directive never changes the
result, only the order of computation and where values are stored. Each example shows a formula, the
nest before the call, the call, and the nest after it. In the nests, `for` is a serial loop, and the
body of a loop is indented by two columns.

A method returns the handle of its stage, so calls can be chained.

- `split` returns the names of both loops, and `tile` those of all loops, so no call follows them.
- `fuse` returns the handle, which converts to the name of the new loop.
- A method that makes a stage, such as `rfactor`, returns the handle of that stage.

```cpp
auto C = s.stage("C");
auto [io, ii] = C.split("i", 14); // loops "i.o" and "i.i"
C.reorder({io, "j", ii}).unroll(ii);
C.fuse(io, "j", "tiles").parallel("tiles");
```

)page";

} // namespace

std::string primitive_section(const std::string &name) {
    std::ostringstream out;
    section(out, primitive(name));
    return out.str();
}

std::string primitives_page() {
    std::ostringstream out;
    out << primitives_preface;
    out << "| group | primitives |\n|---|---|\n";
    for (const std::string &g : primitive_groups()) {
        out << "| " << g << " |";
        for (const Primitive *p : primitives()) {
            if (p->group == g) out << " [`" << p->name << "`](#" << p->name << ")";
        }
        out << " |\n";
    }
    for (const std::string &g : primitive_groups()) {
        std::string title = g;
        title[0] = static_cast<char>(toupper(title[0]));
        out << "\n## " << title << "\n\n";
        for (const Primitive *p : primitives()) {
            if (p->group == g) section(out, *p);
        }
    }
    return out.str();
}

} // namespace kumiko
