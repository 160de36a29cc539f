#include "targets/cpu/stack_usage.h"

#include "support/error.h"

#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/LEB128.h>

#include <map>
#include <memory>
#include <optional>
#include <set>

namespace kumiko {

namespace {

using llvm::object::ELFObjectFileBase;
using llvm::object::RelocationRef;
using llvm::object::SectionRef;
using llvm::object::SymbolRef;

constexpr int64_t beside_a_frame = 8 + 64; // bytes: return address, alignment

template<typename T>
T unwrap(llvm::Expected<T> value) {
    if (!value) throw InternalError("sizes of stack frames: " + llvm::toString(value.takeError()));
    return std::move(*value);
}

// Each function has a section of its own. Sections refer to others by relocations: calls, and
// addresses of functions that are passed on, in code or in tables.
class CallGraph {
public:
    explicit CallGraph(const std::vector<std::pair<std::string, std::string>> &objects) {
        for (const auto &[name, bytes] : objects)
            parsed_.push_back(unwrap(llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, name))));
        for (size_t n = 0; n < parsed_.size(); n++) {
            for (const SymbolRef &symbol : parsed_[n]->symbols()) {
                if (unwrap(symbol.getFlags()) & SymbolRef::SF_Undefined) continue;
                if (!(unwrap(symbol.getFlags()) & SymbolRef::SF_Global)) continue;
                if (const auto to = section_of(n, symbol)) defined_[unwrap(symbol.getName()).str()] = *to;
            }
        }
        for (size_t n = 0; n < parsed_.size(); n++) {
            for (const SectionRef &section : parsed_[n]->sections()) add(n, section);
        }
    }

    int64_t deepest(const std::string &function) {
        const auto found = defined_.find(function);
        if (found == defined_.end()) throw InternalError("the function " + function + " is not in the library");
        return deepest(found->second);
    }

private:
    using Node = std::pair<size_t, uint64_t>; // object, index of the section

    std::optional<Node> section_of(size_t object, const SymbolRef &symbol) const {
        const auto section = unwrap(symbol.getSection());
        if (section == parsed_[object]->section_end()) return {};
        return Node{object, section->getIndex()};
    }

    // The section that a relocation refers to; nothing if no object defines it.
    std::optional<Node> target(size_t object, const RelocationRef &relocation) const {
        const auto symbol = relocation.getSymbol();
        if (symbol == parsed_[object]->symbol_end()) return {};
        if (!(unwrap(symbol->getFlags()) & SymbolRef::SF_Undefined)) return section_of(object, *symbol);
        const auto found = defined_.find(unwrap(symbol->getName()).str());
        return found == defined_.end() ? std::nullopt : std::optional(found->second);
    }

    void add(size_t object, const SectionRef &relocations) {
        const auto section = unwrap(relocations.getRelocatedSection());
        if (section == parsed_[object]->section_end()) return;
        const bool frames = unwrap(section->getName()) == ".stack_sizes";
        const llvm::StringRef bytes = frames ? unwrap(section->getContents()) : llvm::StringRef();
        const unsigned address = llvm::cast<ELFObjectFileBase>(*parsed_[object]).getBytesInAddress();
        for (const RelocationRef &r : relocations.relocations()) {
            const auto to = target(object, r);
            if (!to) continue;
            if (frames) {
                const auto *at = bytes.bytes_begin() + r.getOffset() + address;
                frames_[*to] = int64_t(llvm::decodeULEB128(at, nullptr, bytes.bytes_end())) + beside_a_frame;
            } else if (llvm::object::ELFSectionRef(*section).getFlags() & llvm::ELF::SHF_ALLOC) {
                if (*to != Node{object, section->getIndex()}) calls_[{object, section->getIndex()}].insert(*to);
            }
        }
    }

    int64_t deepest(const Node &node) {
        const auto [known, fresh] = most_.emplace(node, -1);
        if (!fresh && known->second < 0) throw InternalError("a function of the library calls itself");
        if (!fresh) return known->second;
        int64_t below = 0;
        for (const Node &called : calls_[node]) below = std::max(below, deepest(called));
        const auto own = frames_.find(node);
        return most_[node] = below + (own == frames_.end() ? 0 : own->second);
    }

    std::vector<std::unique_ptr<llvm::object::ObjectFile>> parsed_;
    std::map<std::string, Node> defined_; // global symbols
    std::map<Node, std::set<Node>> calls_;
    std::map<Node, int64_t> frames_, most_;
};

} // namespace

int64_t stack_bytes(const std::vector<std::pair<std::string, std::string>> &objects, const std::string &function) {
    return CallGraph(objects).deepest(function);
}

} // namespace kumiko
