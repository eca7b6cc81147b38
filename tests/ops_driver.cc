// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of ops in C++ for tests/python/test_ops.py. A line in: an op and its arguments ("f32[2,?,64]", "none", "4",
// "?", "'s8'"). A line out: the sentence that refuses them, or the call.
#include <iostream>
#include <sstream>

#include "../abi/mlir/ops.h"

using namespace qmm::ops;

static Extent parse_extent(const std::string& text) { return text == "?" ? Extent() : Extent(std::stoll(text)); }

static Given parse(const std::string& text) {
  Given given;
  const size_t bracket = text.find('[');
  if (text == "none") return given;
  if (text[0] == '\'') {
    given.kind = Given::kString;
    given.string = text.substr(1, text.size() - 2);
  } else if (bracket == std::string::npos) {
    given.kind = Given::kInteger;
    given.integer = parse_extent(text);
  } else {
    given.kind = Given::kTensor;
    given.dtype = text.substr(0, bracket);
    std::istringstream extents(text.substr(bracket + 1, text.size() - bracket - 2));
    for (std::string extent; std::getline(extents, extent, ',');) given.shape.push_back(parse_extent(extent));
  }
  return given;
}

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string name;
    in >> name;
    std::vector<Given> given;
    for (std::string text; in >> text;) given.push_back(parse(text));
    Call call;
    const std::string sentence = check(*find_op(name), given, call);
    if (!sentence.empty()) {
      std::cout << sentence << "\n";
      continue;
    }
    std::cout << call.callee;
    for (const Call::Tensor& tensor : call.tensors)
      std::cout << " " << tensor.argument << ":" << tensor.rank << tensor.dtype;
    for (const int64_t scalar : call.scalars) std::cout << " " << scalar;
    std::cout << " ->";
    for (const Extent extent : call.shape) std::cout << " " << extent;
    std::cout << " " << call.dtype << "\n";
  }
}
