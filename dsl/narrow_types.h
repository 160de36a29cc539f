// Element types of arrays that formulas do not compute with. An element takes one byte in memory:
// an integer of 2 or 4 bits with its sign or zeros extended, or the bits of a float in the low bits
// of the byte.
#pragma once

#include "dsl/buffers.h"
#include "dsl/types.h"

namespace kumiko {

inline const Type i4 = Int(4), u4 = UInt(4), i2 = Int(2), u2 = UInt(2);
// Floats. Their codes are those of DLPack.
inline const Type f8e4m3fn(static_cast<halide_type_code_t>(10), 8, 1);
inline const Type f8e4m3fnuz(static_cast<halide_type_code_t>(11), 8, 1);
inline const Type f8e5m2(static_cast<halide_type_code_t>(12), 8, 1);
inline const Type f8e5m2fnuz(static_cast<halide_type_code_t>(13), 8, 1);
inline const Type f8e8m0(static_cast<halide_type_code_t>(14), 8, 1);
inline const Type f4e2m1(static_cast<halide_type_code_t>(17), 4, 1);

// The bits of a float: a sign (f8e8m0 has none), the exponent, the mantissa.
struct NarrowFloat {
    Type type;
    const char *name;
    int exponent, mantissa, bias; // numbers of bits; subtracted from the exponent's bits
    int largest;                  // the bits of the largest number
    int infinity, nan;            // bits; infinity is `nan` if there is none
    bool one_zero = false;        // there is no −0: its bits are NaN
};
// Null if the type is no narrow float.
const NarrowFloat *narrow_float(Type type);

bool is_narrow(Type type);
// The type of an element in memory: i8 or u8 of a narrow type, u64 of a handle, otherwise the type
// itself.
Type stored_type(Type type);
// The same memory as an array of another type whose elements have the same size.
Buffer<> retyped(const Buffer<> &array, Type type);

// The number that the bits of a narrow type mean.
double narrow_value(Type type, uint8_t bits);
// The bits of the number of a narrow float that is nearest to a finite value; the low bits of an
// integer, extended.
uint8_t narrow_bits(Type type, double value);

} // namespace kumiko
