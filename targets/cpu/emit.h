// Tensor instructions as LLVM: the only public header that sees LLVM.
//
// A call named "kumiko.inst.<name>" in a nest is emitted by the function registered here under <name>. Its arguments are
// the call's arguments, evaluated: vectors for loaded operands, with f16 and bf16 elements as 16-bit integers; a Handle
// argument arrives as a pointer. The function returns the call's value, in the LLVM type of the call's type. Of an instruction
// whose operands are in memory the arguments are, for each, the address of its first element and the distance of its rows in
// bytes, as i64; what it returns is not looked at.
#pragma once

#include "machine/instruction.h"

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace kumiko {

using Emitter = std::function<llvm::Value *(llvm::IRBuilder<> &, const std::vector<llvm::Value *> &args)>;

// An instruction in memory on tiles of 16 rows of 64 bytes, whose operands may also stay in
// registers of their own kind: how these are loaded, cleared and stored, and how c + a · b is
// computed. `row`: the distance of rows in bytes. Code generation then loads an operand that
// neighbouring instructions share once, and keeps sums in registers while a loop adds to them
// (tiles.cpp).
struct TileEmitter {
    std::function<llvm::Value *(llvm::IRBuilder<> &)> zero; // optional
    std::function<llvm::Value *(llvm::IRBuilder<> &, llvm::Value *address, llvm::Value *row)> load;
    std::function<llvm::Value *(llvm::IRBuilder<> &, llvm::Value *c, llvm::Value *a, llvm::Value *b)> multiply;
    std::function<void(llvm::IRBuilder<> &, llvm::Value *address, llvm::Value *row, llvm::Value *c)> store;
    int registers = 0; // that there are of this kind
};

// On an instruction (machine/instruction.h) of one's own: it then needs no registry.
template<typename F>
Instruction &Instruction::emit(F f) {
    emitter = std::make_shared<const Emitter>(std::move(f));
    return *this;
}

class EmitterRegistry {
public:
    // With those of InstructionSet::builtin() that processors have (machine/instruction.cpp says what each means), and
    //   "fma" (a, b, c) → a*b + c, any float type, rounded once
    static EmitterRegistry builtin();

    // Adds or replaces.
    void add(const std::string &name, Emitter emitter) {
        tiles_.erase(name);
        builtin_.erase(name);
        emitters_[name] = std::move(emitter);
    }
    void add(const std::string &name, const TileEmitter &tiles);
    // Null when there is none.
    const Emitter *find(const std::string &name) const {
        auto found = emitters_.find(name);
        return found == emitters_.end() ? nullptr : &found->second;
    }
    const TileEmitter *find_tiles(const std::string &name) const {
        auto found = tiles_.find(name);
        return found == tiles_.end() ? nullptr : &found->second;
    }
    std::vector<std::string> names() const;
    // Whether builtin() put it there and nothing has replaced it.
    bool is_builtin(const std::string &name) const { return builtin_.count(name); }

private:
    std::map<std::string, Emitter> emitters_;
    std::map<std::string, TileEmitter> tiles_;
    std::set<std::string> builtin_;
};

} // namespace kumiko
