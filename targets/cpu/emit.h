// Tensor instructions as LLVM IR: the only public header that includes LLVM.
//
// A call named "kumiko.inst.<name>" in a nest is emitted by the function registered here under
// <name>. Its arguments are the evaluated arguments of the call: vectors for loaded operands, with
// f16 and bf16 elements as 16-bit integers, and a pointer for a Handle. It returns the call's
// value, in the LLVM type of the call's type. An instruction with operands in memory gets two
// arguments per operand, the address of its first element and its row stride in bytes as i64; its
// return value is ignored.
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

// An instruction on tiles of 16 rows of 64 bytes in memory, whose operands may also be held in tile
// registers: how these are loaded, cleared and stored, and how c + a · b is computed. `row` is the
// row stride in bytes. Code generation then loads an operand that neighbouring instructions share
// once, and keeps accumulators in registers across a loop (tiles.cpp).
struct TileEmitter {
    std::function<llvm::Value *(llvm::IRBuilder<> &)> zero; // optional
    std::function<llvm::Value *(llvm::IRBuilder<> &, llvm::Value *address, llvm::Value *row)> load;
    std::function<llvm::Value *(llvm::IRBuilder<> &, llvm::Value *c, llvm::Value *a, llvm::Value *b)> multiply;
    std::function<void(llvm::IRBuilder<> &, llvm::Value *address, llvm::Value *row, llvm::Value *c)> store;
    int registers = 0; // number of tile registers
};

// Attaches an emitter to a user's instruction (machine/instruction.h), which then needs no
// registry.
template<typename F>
Instruction &Instruction::emit(F f) {
    emitter = std::make_shared<const Emitter>(std::move(f));
    return *this;
}

// The emitters of tensor instructions, by name.
class EmitterRegistry {
public:
    // Contains the instructions of InstructionSet::builtin() that processors have
    // (machine/instruction.cpp defines each), and
    //   "fma" (a, b, c) → a*b + c, any float type, rounded once
    static EmitterRegistry builtin();

    // Adds or replaces.
    void add(const std::string &name, Emitter emitter) {
        tiles_.erase(name);
        builtin_.erase(name);
        emitters_[name] = std::move(emitter);
    }
    void add(const std::string &name, const TileEmitter &tiles);
    // Null if the name is not registered.
    const Emitter *find(const std::string &name) const {
        auto found = emitters_.find(name);
        return found == emitters_.end() ? nullptr : &found->second;
    }
    const TileEmitter *find_tiles(const std::string &name) const {
        auto found = tiles_.find(name);
        return found == tiles_.end() ? nullptr : &found->second;
    }
    std::vector<std::string> names() const;
    // Whether the emitter under this name is the one that builtin() registered.
    bool is_builtin(const std::string &name) const { return builtin_.count(name); }

private:
    std::map<std::string, Emitter> emitters_;
    std::map<std::string, TileEmitter> tiles_;
    std::set<std::string> builtin_;
};

} // namespace kumiko
