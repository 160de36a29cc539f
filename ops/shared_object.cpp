#include "ops/shared_object.h"

#include "ops/export.h"
#include "support/error.h"
#include "support/names.h"

#include <dlfcn.h>
#include <filesystem>

namespace kumiko::ops {

namespace {

const char *const how = "an object is made with KUMIKO_EXPORT_OPS(…) of ops/export.h";

// Errors thrown by functions of an object are reported as errors of the object.
template<typename F>
auto guarded(const std::string &what, F f) {
    try {
        return f();
    } catch (const UserError &) {
        throw;
    } catch (const Unsupported &) {
        throw;
    } catch (const Halide::Error &e) {
        throw UserError(what + ": " + e.what());
    } catch (const std::exception &e) {
        throw UserError(what + ": " + e.what());
    } catch (...) {
        throw UserError(what + ": it throws an object that is not a std::exception");
    }
}

} // namespace

std::optional<SharedName> shared_name(const std::string &text) {
    const size_t colon = text.rfind(".so:");
    if (colon != std::string::npos) return SharedName{text.substr(0, colon + 3), text.substr(colon + 4)};
    if (text.ends_with(".so")) return SharedName{text, ""};
    if (text.find('/') == std::string::npos) return {};
    const size_t last = text.rfind(':');
    if (last == std::string::npos) return SharedName{text, ""};
    return SharedName{text.substr(0, last), text.substr(last + 1)};
}

std::vector<Operator> load_operators(const std::string &file) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error))
        throw UserError("there is no file " + file +
                        "; an op of a shared object is written PATH:NAME, as ./libmyops.so:group_norm_silu");
    // A name without a slash would be searched for in system folders.
    const std::string path = std::filesystem::absolute(file, error).string();
    void *object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!object) {
        const char *cause = dlerror();
        throw UserError("cannot load " + file + ": " + (cause ? cause : "unknown cause") + "; " + how);
    }
    const auto *exported = static_cast<const ExportedOps *>(dlsym(object, "kumiko_exported_ops"));
    if (!exported) throw UserError(file + " exports no ops: it has no symbol kumiko_exported_ops; " + how);
    if (!exported->abi || std::string_view(exported->abi) != KUMIKO_OPS_ABI)
        throw UserError(file + " was compiled for \"" + (exported->abi ? exported->abi : "") +
                        "\", but this program needs \"" KUMIKO_OPS_ABI
                        "\"; compile it again with this Kumiko's headers");
    std::vector<Operator> all = guarded(file, [&] { return exported->operators(); });
    for (Operator &op : all) {
        require_identifier(op.name, "op");
        const std::string full = file + ":" + op.name;
        op.build = [build = op.build, full](const Json &complete) {
            return guarded("op " + full, [&] { return build(complete); });
        };
        op.name = full;
    }
    return all;
}

} // namespace kumiko::ops
