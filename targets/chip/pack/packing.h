#pragma once

namespace kumiko {

// How operations become words. The others are what packing is measured against.
enum class Packing {
    Full,
    OneAWord, // each operation has a word of its own, the first that is free when its operands are ready
    Naive,    // so, in program order, and every move is waited for before anything else
    Counted   // no words are made: operations are counted, and the time that their data takes (tally.h)
};

} // namespace kumiko
