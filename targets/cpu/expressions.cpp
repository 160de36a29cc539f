// Values of expressions: arithmetic, comparisons, vectors.
//
// One file, because it is one switch with a function for each kind of expression.
#include "targets/cpu/expressions.h"
#include "targets/cpu/zero_lanes.h"

#include "support/error.h"

#include <llvm/IR/Constants.h>

namespace kumiko::cpu {

Expressions::Expressions(llvm::LLVMContext &context, const CodegenOptions &options, const std::string &module_name)
    : Accesses(context, options, module_name),
      emitters_(options.emitters ? options.emitters
                                 : std::make_shared<const EmitterRegistry>(EmitterRegistry::builtin())) {}

using namespace Halide::Internal;

namespace {

bool is_f16(Type t) { return is_half(t) && !t.is_bfloat(); }

// True if the expression consists of constants, variables and arithmetic only, so that it can be
// computed as an index.
bool is_plain_index(const Expr &e) {
    if (e.type() != Int(32) && e.type() != Int(64)) {
        return false;
    }
    switch (e.node_type()) {
    case IRNodeType::IntImm:
    case IRNodeType::Variable:
        return true;
    case IRNodeType::Add:
        return is_plain_index(e.as<Add>()->a) && is_plain_index(e.as<Add>()->b);
    case IRNodeType::Sub:
        return is_plain_index(e.as<Sub>()->a) && is_plain_index(e.as<Sub>()->b);
    case IRNodeType::Mul:
        return is_plain_index(e.as<Mul>()->a) && is_plain_index(e.as<Mul>()->b);
    case IRNodeType::Div:
        return is_plain_index(e.as<Div>()->a) && is_plain_index(e.as<Div>()->b);
    case IRNodeType::Mod:
        return is_plain_index(e.as<Mod>()->a) && is_plain_index(e.as<Mod>()->b);
    case IRNodeType::Min:
        return is_plain_index(e.as<Min>()->a) && is_plain_index(e.as<Min>()->b);
    case IRNodeType::Max:
        return is_plain_index(e.as<Max>()->a) && is_plain_index(e.as<Max>()->b);
    default:
        return false;
    }
}

} // namespace

// Whether the expression is known not to be negative, from the signs of sizes and loop variables.
bool Expressions::is_nonnegative(const Expr &e) {
    if (e.type().is_uint()) {
        return true;
    }
    if (const auto *c = e.as<IntImm>()) {
        return c->value >= 0;
    } else if (const auto *v = e.as<Variable>()) {
        const Symbol *s = symbols_.find(v->name);
        return s && s->nonnegative;
    } else if (const auto *op = e.as<Add>()) {
        return is_nonnegative(op->a) && is_nonnegative(op->b);
    } else if (const auto *op = e.as<Mul>()) {
        return is_nonnegative(op->a) && is_nonnegative(op->b);
    } else if (const auto *op = e.as<Div>()) {
        return is_nonnegative(op->a) && is_nonnegative(op->b);
    } else if (e.as<Mod>()) {
        return true; // Euclidean
    } else if (const auto *op = e.as<Min>()) {
        return is_nonnegative(op->a) && is_nonnegative(op->b);
    } else if (const auto *op = e.as<Max>()) {
        return is_nonnegative(op->a) || is_nonnegative(op->b);
    } else if (const auto *op = e.as<Cast>()) {
        return (op->value.type().is_int() && op->value.type().bits() <= e.type().bits() && is_nonnegative(op->value)) ||
               (op->value.type().is_uint() && op->value.type().bits() < e.type().bits());
    } else if (const auto *op = e.as<Broadcast>()) {
        return is_nonnegative(op->value);
    } else if (const auto *op = e.as<Ramp>()) {
        return is_nonnegative(op->base) && is_nonnegative(op->stride);
    } else if (const auto *op = e.as<Call>()) {
        return op->is_tag() && is_nonnegative(op->args[0]);
    }
    return false;
}

// Index arithmetic: widened to i64 at the leaves. It cannot overflow there, and LLVM is told so.
Value *Expressions::index(const Expr &e) {
    llvm::Type *wide = with_lanes(ir_.getInt64Ty(), e.type().lanes());
    if (const auto *c = e.as<IntImm>()) {
        return i64(c->value);
    } else if (const auto *v = e.as<Variable>()) {
        if (const Symbol *s = symbols_.find(v->name); s && s->index) {
            return s->index;
        }
    } else if (e.type().is_int() && e.type().bits() >= 32) {
        if (const auto *op = e.as<Add>()) {
            Value *a = index(op->a);
            return ir_.CreateNSWAdd(a, index(op->b));
        } else if (const auto *op = e.as<Sub>()) {
            Value *a = index(op->a);
            return ir_.CreateNSWSub(a, index(op->b));
        } else if (const auto *op = e.as<Mul>()) {
            Value *a = index(op->a);
            return ir_.CreateNSWMul(a, index(op->b));
        } else if (const auto *op = e.as<Min>()) {
            Value *a = index(op->a);
            return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, index(op->b));
        } else if (const auto *op = e.as<Max>()) {
            Value *a = index(op->a);
            return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, index(op->b));
        } else if (const auto *op = e.as<Div>()) {
            Value *a = index(op->a);
            return divide(Int(64, e.type().lanes()), a, index(op->b), is_nonnegative(op->a));
        } else if (const auto *op = e.as<Mod>()) {
            Value *a = index(op->a);
            return modulo(Int(64, e.type().lanes()), a, index(op->b), is_nonnegative(op->a));
        } else if (const auto *op = e.as<Broadcast>()) {
            Value *v = index(op->value);
            return op->value.type().is_vector() ? concat(std::vector<Value *>(op->lanes, v)) : broadcast(v, op->lanes);
        } else if (const auto *op = e.as<Ramp>()) {
            Value *base = index(op->base);
            return ramp(base, index(op->stride), op->lanes, true);
        } else if (const auto *op = e.as<Select>()) {
            Value *c = condition(op->condition), *a = index(op->true_value);
            return ir_.CreateSelect(c, a, index(op->false_value));
        } else if (const auto *op = e.as<Let>()) {
            ScopedBinding<Symbol> bound(symbols_, op->name, bind(op->value));
            return index(op->body);
        } else if (const auto *op = e.as<Call>(); op && op->is_tag()) {
            return index(op->args[0]);
        } else if (const auto *op = e.as<Cast>();
                   op && op->value.type().is_int() && op->value.type().bits() >= 32 && e.type().bits() == 64) {
            return index(op->value);
        }
    }
    Value *narrow = value(e);
    return e.type().is_uint() ? ir_.CreateZExtOrTrunc(narrow, wide) : ir_.CreateSExtOrTrunc(narrow, wide);
}

Value *Expressions::condition(const Expr &e) { return value(e); }

Value *Expressions::binary(const Expr &e, const Expr &ea, const Expr &eb) {
    Type t = e.type();
    Value *a = value(ea), *b = value(eb);
    // If the processor computes in f16, a product and a sum may round once, as in f32.
    const bool native = is_f16(t) && has_f16_arithmetic() && (e.as<Add>() || e.as<Sub>() || e.as<Mul>());
    const bool half = is_half(t) && !native;
    if (native) {
        llvm::Type *f16 = with_lanes(ir_.getHalfTy(), lanes(a));
        a = ir_.CreateBitCast(a, f16), b = ir_.CreateBitCast(b, f16);
    } else if (half) {
        a = widen_half(a, t);
        b = widen_half(b, t);
    }
    Value *result = nullptr;
    llvm::IRBuilderBase::FastMathFlagGuard guard(ir_);
    if (options_.contract && !half) {
        llvm::FastMathFlags flags;
        flags.setAllowContract(true);
        ir_.setFastMathFlags(flags);
    }
    switch (e.node_type()) {
    case IRNodeType::Add:
        result = t.is_float() ? ir_.CreateFAdd(a, b) : ir_.CreateAdd(a, b);
        break;
    case IRNodeType::Sub:
        result = t.is_float() ? ir_.CreateFSub(a, b) : ir_.CreateSub(a, b);
        break;
    case IRNodeType::Mul:
        result = t.is_float() ? ir_.CreateFMul(a, b) : ir_.CreateMul(a, b);
        break;
    case IRNodeType::Div:
        if (!t.is_float()) {
            return divide(t, a, b, is_nonnegative(ea));
        }
        ir_.clearFastMathFlags();
        result = ir_.CreateFDiv(a, b);
        break;
    case IRNodeType::Mod:
        if (!t.is_float()) {
            return modulo(t, a, b, is_nonnegative(ea));
        }
        // a - b * floor(a / b), as Halide does.
        ir_.clearFastMathFlags();
        result = ir_.CreateFSub(
            a, ir_.CreateFMul(b, ir_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, ir_.CreateFDiv(a, b))));
        break;
    default:
        throw InternalError("not a binary node");
    }
    if (native) return ir_.CreateBitCast(result, with_lanes(ir_.getInt16Ty(), lanes(result)));
    return half ? narrow_to_half(result, t) : result;
}

Value *Expressions::compare(const Expr &e, const Expr &ea, const Expr &eb) {
    Type t = ea.type();
    Value *a, *b;
    if (is_plain_index(ea) && is_plain_index(eb)) {
        a = index(ea);
        b = index(eb);
    } else {
        a = value(ea);
        b = value(eb);
    }
    if (is_half(t)) {
        a = widen_half(a, t);
        b = widen_half(b, t);
    }
    using P = llvm::CmpInst::Predicate;
    bool f = t.is_float(), u = t.is_uint() || t.is_handle();
    switch (e.node_type()) {
    case IRNodeType::EQ:
        return ir_.CreateCmp(f ? P::FCMP_OEQ : P::ICMP_EQ, a, b);
    case IRNodeType::NE:
        return ir_.CreateCmp(f ? P::FCMP_UNE : P::ICMP_NE, a, b);
    case IRNodeType::LT:
        return ir_.CreateCmp(f ? P::FCMP_OLT : u ? P::ICMP_ULT : P::ICMP_SLT, a, b);
    case IRNodeType::LE:
        return ir_.CreateCmp(f ? P::FCMP_OLE : u ? P::ICMP_ULE : P::ICMP_SLE, a, b);
    case IRNodeType::GT:
        return ir_.CreateCmp(f ? P::FCMP_OGT : u ? P::ICMP_UGT : P::ICMP_SGT, a, b);
    case IRNodeType::GE:
        return ir_.CreateCmp(f ? P::FCMP_OGE : u ? P::ICMP_UGE : P::ICMP_SGE, a, b);
    default:
        throw InternalError("not a comparison");
    }
}

Value *Expressions::shuffle(const Shuffle *op) {
    std::vector<Value *> parts;
    for (const Expr &v : op->vectors) {
        parts.push_back(value(v));
    }
    Value *all = concat(parts);
    if (!is_vector(all)) {
        return broadcast(all, op->type.lanes());
    }
    return lanes_of(all, op->indices);
}

// Reduced as a balanced tree over neighbouring lanes of each group, so the order depends on the
// lane count only.
Value *Expressions::vector_reduce(const VectorReduce *op) {
    Value *v = value(op->value);
    int groups = op->type.lanes(), factor = op->value.type().lanes() / groups;
    std::vector<Value *> terms;
    auto join = [&](Value *a, Value *b) -> Value * {
        Type t = op->type.with_lanes(lanes(a));
        bool half = is_half(t);
        switch (op->op) {
        case VectorReduce::Min:
            return minmax(t, a, b, false);
        case VectorReduce::Max:
            return minmax(t, a, b, true);
        case VectorReduce::And:
            return ir_.CreateAnd(a, b);
        case VectorReduce::Or:
            return ir_.CreateOr(a, b);
        case VectorReduce::SaturatingAdd:
            return ir_.CreateBinaryIntrinsic(t.is_uint() ? llvm::Intrinsic::uadd_sat : llvm::Intrinsic::sadd_sat, a, b);
        default:
            break;
        }
        Value *x = half ? widen_half(a, t) : a, *y = half ? widen_half(b, t) : b;
        Value *r = op->op == VectorReduce::Add ? (t.is_float() ? ir_.CreateFAdd(x, y) : ir_.CreateAdd(x, y))
                                               : (t.is_float() ? ir_.CreateFMul(x, y) : ir_.CreateMul(x, y));
        return half ? narrow_to_half(r, t) : r;
    };
    if (groups == 1) { // halve the vector while it is even: lane i joins lane i + n/2
        while (lanes(v) > 1 && lanes(v) % 2 == 0) {
            int n = lanes(v) / 2;
            v = join(slice(v, 0, n), slice(v, n, n));
        }
        if (!is_vector(v)) {
            return v;
        }
        factor = lanes(v);
    }
    for (int k = 0; k < factor; k++) {
        std::vector<int> taken;
        for (int g = 0; g < groups; g++) {
            taken.push_back(g * factor + k);
        }
        terms.push_back(lanes_of(v, taken));
    }
    while (terms.size() > 1) {
        std::vector<Value *> next;
        for (size_t i = 0; i + 1 < terms.size(); i += 2) {
            next.push_back(join(terms[i], terms[i + 1]));
        }
        if (terms.size() % 2) {
            next.push_back(terms.back());
        }
        terms = std::move(next);
    }
    return terms[0];
}

// A switch over the kinds of expressions.
Value *Expressions::value(const Expr &e) {
    Type t = e.type();
    switch (e.node_type()) {
    case IRNodeType::IntImm:
        return constant(t, e.as<IntImm>()->value);
    case IRNodeType::UIntImm:
        return llvm::ConstantInt::get(type(t), e.as<UIntImm>()->value);
    case IRNodeType::FloatImm: {
        double v = e.as<FloatImm>()->value;
        if (is_half(t)) {
            uint16_t bits = t.is_bfloat() ? bfloat16_t(v).to_bits() : float16_t(v).to_bits();
            return llvm::ConstantInt::get(type(t), bits);
        }
        return llvm::ConstantFP::get(type(t), v);
    }
    case IRNodeType::StringImm:
        return ir_.CreateGlobalStringPtr(e.as<StringImm>()->value);
    case IRNodeType::Variable: {
        const std::string &name = e.as<Variable>()->name;
        if (const Symbol *s = symbols_.find(name)) {
            return s->value;
        }
        if (const Array *a = arrays_.find(name); a && a->pointer) {
            return a->pointer;
        }
        throw InternalError("kernel " + kernel_ + ": variable " + name + " is not defined");
    }
    case IRNodeType::Add:
        return binary(e, e.as<Add>()->a, e.as<Add>()->b);
    case IRNodeType::Sub:
        return binary(e, e.as<Sub>()->a, e.as<Sub>()->b);
    case IRNodeType::Mul:
        return binary(e, e.as<Mul>()->a, e.as<Mul>()->b);
    case IRNodeType::Div:
        return binary(e, e.as<Div>()->a, e.as<Div>()->b);
    case IRNodeType::Mod:
        return binary(e, e.as<Mod>()->a, e.as<Mod>()->b);
    case IRNodeType::Min: {
        Value *a = value(e.as<Min>()->a);
        return minmax(t, a, value(e.as<Min>()->b), false);
    }
    case IRNodeType::Max: {
        Value *a = value(e.as<Max>()->a);
        return minmax(t, a, value(e.as<Max>()->b), true);
    }
    case IRNodeType::EQ:
        return compare(e, e.as<EQ>()->a, e.as<EQ>()->b);
    case IRNodeType::NE:
        return compare(e, e.as<NE>()->a, e.as<NE>()->b);
    case IRNodeType::LT:
        return compare(e, e.as<LT>()->a, e.as<LT>()->b);
    case IRNodeType::LE:
        return compare(e, e.as<LE>()->a, e.as<LE>()->b);
    case IRNodeType::GT:
        return compare(e, e.as<GT>()->a, e.as<GT>()->b);
    case IRNodeType::GE:
        return compare(e, e.as<GE>()->a, e.as<GE>()->b);
    case IRNodeType::And: {
        Value *a = value(e.as<And>()->a);
        return ir_.CreateAnd(a, value(e.as<And>()->b));
    }
    case IRNodeType::Or: {
        Value *a = value(e.as<Or>()->a);
        return ir_.CreateOr(a, value(e.as<Or>()->b));
    }
    case IRNodeType::Not:
        return ir_.CreateNot(value(e.as<Not>()->a));
    case IRNodeType::Select: {
        const auto *op = e.as<Select>();
        if (const Expr loaded = loaded_or_zero(op); loaded.defined()) return value(loaded);
        Value *c = condition(op->condition), *a = value(op->true_value);
        return select(c, a, value(op->false_value));
    }
    case IRNodeType::Cast:
        if (Value *v = rounded_to_int(e.as<Cast>())) return v;
        return cast(value(e.as<Cast>()->value), e.as<Cast>()->value.type(), t, range_of_clamped(e.as<Cast>()->value));
    case IRNodeType::Reinterpret: {
        Value *v = value(e.as<Reinterpret>()->value);
        return v->getType()->isPtrOrPtrVectorTy() || type(t)->isPtrOrPtrVectorTy()
                   ? ir_.CreateBitOrPointerCast(v, type(t))
                   : ir_.CreateBitCast(v, type(t));
    }
    case IRNodeType::Broadcast: {
        const auto *op = e.as<Broadcast>();
        Value *v = value(op->value);
        return is_vector(v) ? concat(std::vector<Value *>(op->lanes, v)) : broadcast(v, op->lanes);
    }
    case IRNodeType::Ramp: {
        const auto *op = e.as<Ramp>();
        if (t.is_float()) {
            throw Unsupported("kernel " + kernel_ + ": a ramp of floating-point numbers");
        }
        Value *base = value(op->base);
        return ramp(base, value(op->stride), op->lanes, false);
    }
    case IRNodeType::Let: {
        const auto *op = e.as<Let>();
        const Symbol symbol = bind(op->value);
        const Called before = symbols_.contains(op->name) ? std::exchange(called_, {}) : called_;
        ScopedBinding<Symbol> bound(symbols_, op->name, symbol);
        Value *v = value(op->body);
        called_ = before; // cached values of the body may use the name, which is now out of scope
        return v;
    }
    case IRNodeType::Load:
        return load(e.as<Load>());
    case IRNodeType::Shuffle:
        return shuffle(e.as<Shuffle>());
    case IRNodeType::VectorReduce:
        return vector_reduce(e.as<VectorReduce>());
    case IRNodeType::Call:
        return call(e.as<Call>());
    default:
        throw Unsupported("kernel " + kernel_ + ": an expression node that code generation does not know");
    }
}

namespace {

// Whether a let's value contains loads or calls; without them it is index arithmetic, which may be
// computed without wrap-around.
class HasValues : public IRVisitor {
public:
    bool found = false;

private:
    using IRVisitor::visit;
    void visit(const Load *) override { found = true; }
    void visit(const Call *op) override { found |= !op->is_tag(); }
};

} // namespace

Symbol Expressions::bind_index(Value *v, Type t, bool nonnegative, ModulusRemainder alignment) {
    Symbol s;
    s.index = v;
    s.value = t.bits() == 64 ? v : ir_.CreateTrunc(v, type(t));
    s.nonnegative = nonnegative;
    s.alignment = alignment;
    return s;
}

Symbol Expressions::bind(const Expr &e) {
    Type t = e.type();
    if (t.is_scalar() && t.is_int() && t.bits() >= 32) {
        ModulusRemainder alignment = modulus_remainder(e, alignments_);
        bool nonnegative = is_nonnegative(e);
        HasValues values;
        e.accept(&values);
        if (!values.found) {
            return bind_index(index(e), t, nonnegative, alignment);
        }
        Symbol s;
        s.value = value(e);
        s.index = ir_.CreateSExt(s.value, ir_.getInt64Ty());
        s.nonnegative = nonnegative;
        s.alignment = alignment;
        return s;
    }
    Symbol s;
    s.value = value(e);
    return s;
}

} // namespace kumiko::cpu
