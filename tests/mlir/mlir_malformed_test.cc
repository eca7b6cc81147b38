// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whatever generic form holds where an op of the table is named: the passes lower it to IR that verifies, or say what
// is wrong with it, with a location.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "abi/mlir/ops.h"
#include "abi/mlir/passes.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

namespace qmm::test {
namespace {

constexpr const char* kTypes[] = {
    "f32",
    "i64",
    "i8",
    "index",
    "none",
    "complex<f32>",
    "tuple<>",
    "vector<4xf32>",
    "!torch.int",
    "!torch.str",
    "!torch.none",
    "!torch.tensor",
    "!torch.vtensor",
    "!torch.vtensor<*,f32>",
    "!torch.vtensor<[],f32>",
    "!torch.vtensor<[5,64],f32>",
    "!torch.vtensor<[?,64],f16>",
    "!torch.vtensor<[5,64],qint8>",
    "!torch.vtensor<[5,64],unk>",
    "!torch.vtensor<[1344],ui8>",
    "!torch.vtensor<[?],ui8>",
    "!torch.vtensor<[?],si64>",
    "!torch.vtensor<[-5,64],f32>",
    "!torch.vtensor<[5,,64],f32>",
    "!torch.vtensor<[],>",
    "!torch.vtensor<[x],f32>",
    "!torch.vtensor<[99999999999999999999],f32>",
    "!torch.vtensor<[9223372036854775807,9223372036854775807,64],f32>",
    "!torch.vtensor<[5,64],f32,#torch.sparse>",
    "!torch.list<int>",
    "!other.type<[5,64],f32>",
    "tensor<f32>",
    "tensor<64xf32>",
    "tensor<5x64xf32>",
    "tensor<?x64xf32>",
    "tensor<?x?xf32>",
    "tensor<2x?x3x?xf32>",
    "tensor<0x0xf32>",
    "tensor<0x0xi8>",
    "tensor<0x0xf16>",
    "tensor<0x0xi32>",
    "tensor<0x0xcomplex<f32>>",
    "tensor<0x0x!torch.int>",
    "tensor<5x0xf32>",
    "tensor<*xf32>",
    "tensor<5x64xf64>",
    "tensor<5x64xbf16>",
    "tensor<5x64xi1>",
    "tensor<5x64xi4>",
    "tensor<5x64xindex>",
    "tensor<5x64xcomplex<f32>>",
    "tensor<5x64xvector<4xf32>>",
    "tensor<5x64x!torch.int>",
    "tensor<5x64xf32, \"encoding\">",
    "tensor<1344xi8>",
    "tensor<1344xui8>",
    "tensor<?xsi8>",
    "tensor<32x32xi8>",
    "tensor<32x2xf16>",
    "tensor<32x2xi8>",
    "tensor<?x?xf16>",
    "tensor<?xi64>",
    "tensor<3x2xui64>",
    "memref<5x64xf32>",
    "memref<*xf32>",
    "memref<?xi8>",
    "memref<5x64xf32, strided<[1, 5], offset: 3>>",
};

constexpr const char* kAttributes[] = {
    "unit",
    "true",
    "false",
    "0",
    "4",
    "8",
    "32",
    "64",
    "-1",
    "9223372036854775807",
    "-9223372036854775808 : i64",
    "170141183460469231731687303715884105727 : i128",
    "300 : i9",
    "1.5 : f32",
    "\"\"",
    "\"f32\"",
    "\"s8\"",
    "\"x\\00y\"",
    "\"qmm_matmul_packed\"",
    "\"quantized.matmul.grouped\"",
    "\"{bits = 4, group = 32}\"",
    "\"{\"",
    "{}",
    "{lhs = \"s8\"}",
    "{bits = 4, group = 32, lhs = \"f32\"}",
    "{bits = \"4\", group = 32.0}",
    "{n = 32}",
    "{n = -1 : i64}",
    "{unknown}",
    "[]",
    "[0]",
    "[dense<[1, 0]> : tensor<2xindex>]",
    "[dense<[0, 1]> : tensor<2xindex>]",
    "dense<1> : tensor<2xi8>",
    "dense<1.0> : tensor<2xf32>",
    "@symbol",
    "i32",
    "affine_map<(d0) -> (d0)>",
    "array<i64: 1, 2>",
    "#stablehlo.output_operand_alias<output_tuple_indices = []>",
};

constexpr const char* kAttributeNames[] = {
    "name",        "call_target_name", "backend_config", "mhlo.backend_config", "has_side_effect",
    "api_version", "operand_layouts",  "result_layouts", "called_computations", "output_operand_aliases"};

// An operand: an argument of the function, or a constant.
struct Operand {
  std::string type;
  const char* constant = nullptr;  // an op without operands
  mlir::Attribute value = {};
};

struct OpText {
  std::string op;
  std::vector<Operand> operands;
  std::vector<std::string> results;
  std::vector<std::pair<std::string, mlir::Attribute>> attributes;
};

class Malformed : public testing::Test {
 protected:
  Malformed() : context_(mlir::MLIRContext::Threading::DISABLED) {
    context_.allowUnregisteredDialects();
    context_.loadDialect<mlir::func::FuncDialect>();
    for (const char* text : kAttributes) {
      attributes_.push_back(mlir::parseAttribute(text, &context_));
      EXPECT_TRUE(attributes_.back()) << text;
    }
  }

  mlir::Attribute attribute(const std::string& text) { return mlir::parseAttribute(text, &context_); }

  mlir::Type type(const std::string& text) {
    // Those of the torch dialect may be spelled in ways that MLIR's parser does not take.
    constexpr llvm::StringLiteral kTorch = "!torch.";
    if (llvm::StringRef(text).starts_with(kTorch))
      return mlir::OpaqueType::get(mlir::StringAttr::get(&context_, "torch"), text.substr(kTorch.size()));
    const mlir::Type parsed = mlir::parseType(text, &context_);
    EXPECT_TRUE(parsed) << text;
    return parsed;
  }

  // Runs the passes on a function of one op. Returns whether they lowered it.
  bool run(const OpText& text) {
    const mlir::Location at = mlir::FileLineColLoc::get(&context_, "here", 1, 2);
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(at);
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(module->getBody());
    llvm::SmallVector<mlir::Type> arguments;
    for (const Operand& operand : text.operands)
      if (operand.constant == nullptr) arguments.push_back(type(operand.type));
    auto function = builder.create<mlir::func::FuncOp>(at, "f", builder.getFunctionType(arguments, {}));
    builder.setInsertionPointToStart(function.addEntryBlock());

    mlir::OperationState state(at, text.op);
    unsigned next = 0;
    for (const Operand& operand : text.operands) {
      if (operand.constant == nullptr) {
        state.operands.push_back(function.getArgument(next++));
        continue;
      }
      mlir::OperationState constant(at, operand.constant, {}, type(operand.type));
      if (operand.value) constant.addAttribute("value", operand.value);
      state.operands.push_back(builder.create(constant)->getResult(0));
    }
    for (const std::string& result : text.results) state.types.push_back(type(result));
    for (const auto& [name, value] : text.attributes)
      if (value) state.addAttribute(name, value);
    builder.create(state);
    builder.create<mlir::func::ReturnOp>(at);
    EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));

    std::string said;
    bool located = true;
    mlir::ScopedDiagnosticHandler handler(&context_, [&](mlir::Diagnostic& diagnostic) {
      said += diagnostic.str() + "\n";
      located &= diagnostic.getLocation() == at;
      return mlir::success();
    });
    for (const auto create : {create_lower_ops_pass, create_convert_types_pass}) {
      mlir::PassManager manager(&context_);
      manager.enableVerifier(false);
      manager.addPass(create());
      if (mlir::failed(manager.run(*module))) {
        EXPECT_NE(said, "");
        EXPECT_TRUE(located) << said;
        return false;
      }
      EXPECT_TRUE(mlir::succeeded(mlir::verify(*module))) << said;
    }
    return true;
  }

  // Runs what fits, and everything that differs from it in one or, at random, in two places.
  void run_around(const OpText& fits) {
    ASSERT_TRUE(run(fits));
    std::vector<std::function<void(OpText&)>> changes;
    for (const char* text : kTypes) {
      for (size_t i = 0; i < fits.operands.size(); ++i)
        changes.emplace_back([=](OpText& op) {
          if (i < op.operands.size()) op.operands[i] = {text};
        });
      changes.emplace_back([=](OpText& op) { op.results = {text}; });
    }
    for (const mlir::Attribute value : attributes_) {
      for (size_t i = 0; i < fits.operands.size(); ++i)
        for (const char* constant : {"torch.constant.int", "torch.constant.str"})
          changes.emplace_back([=](OpText& op) {
            if (i < op.operands.size()) op.operands[i] = {"!torch.int", constant, value};
          });
      for (const char* name : kAttributeNames)
        changes.emplace_back([=](OpText& op) { op.attributes.emplace_back(name, value); });
    }
    for (size_t i = 0; i < fits.operands.size(); ++i) {
      changes.emplace_back(
          [=](OpText& op) { op.operands[i % op.operands.size()] = {"!torch.none", "torch.constant.none"}; });
      changes.emplace_back([=](OpText& op) { op.operands.push_back(op.operands[i % op.operands.size()]); });
    }
    changes.emplace_back([](OpText& op) { op.operands.resize(1); });
    changes.emplace_back([](OpText& op) { op.results.clear(); });
    changes.emplace_back([](OpText& op) { op.results.push_back("f32"); });
    changes.emplace_back([](OpText& op) { op.attributes.clear(); });

    for (const auto& change : changes) {
      OpText op = fits;
      change(op);
      run(op);
    }
    std::mt19937 random(1);
    for (int i = 0; i < 2000; ++i) {
      OpText op = fits;
      for (int n = 0; n < 2; ++n) changes[random() % changes.size()](op);
      run(op);
    }
  }

  mlir::MLIRContext context_;
  std::vector<mlir::Attribute> attributes_;
};

TEST_F(Malformed, TorchOperator) {
  const Operand n = {"!torch.int", "torch.constant.int", attribute("32 : i64")};
  const Operand lhs = {"!torch.str", "torch.constant.str", attribute("\"s8\"")};
  run_around({"torch.operator",
              {{"!torch.vtensor<[5,64],f32>"}, {"!torch.vtensor<[1344],ui8>"}, n, lhs},
              {"!torch.vtensor<[5,32],f32>"},
              {{"name", attribute("\"torch.quantized.matmul.packed\"")}}});
  run_around({"torch.operator",
              {{"!torch.vtensor<[2],si64>"}, {"!torch.vtensor<[1344],ui8>"}, n},
              {"!torch.vtensor<[2,32],f32>"},
              {{"name", attribute("\"torch.quantized.embedding.packed\"")}}});
  const Operand bits = {"!torch.int", "torch.constant.int", attribute("4 : i64")};
  const Operand none = {"!torch.none", "torch.constant.none"};
  run_around({"torch.operator",
              {{"!torch.vtensor<[5,64],f32>"},
               {"!torch.vtensor<[32,32],ui8>"},
               {"!torch.vtensor<[32,2],f16>"},
               none,
               bits,
               n,
               none,
               lhs},
              {"!torch.vtensor<[5,32],f32>"},
              {{"name", attribute("\"torch.quantized.matmul.grouped\"")}}});
}

TEST_F(Malformed, CustomCall) {
  run_around({"stablehlo.custom_call",
              {{"tensor<5x64xf32>"}, {"tensor<1344xui8>"}},
              {"tensor<5x32xf32>"},
              {{"call_target_name", attribute("\"qmm_matmul_packed\"")}, {"has_side_effect", attribute("true")}}});
  run_around({"stablehlo.custom_call",
              {{"tensor<5x64xf32>"}, {"tensor<32x32xi8>"}, {"tensor<32x2xf16>"}, {"tensor<32x2xi8>"}},
              {"tensor<5x32xf32>"},
              {{"call_target_name", attribute("\"qmm_matmul_grouped\"")},
               {"backend_config", attribute("{bits = 4, group = 32}")},
               {"has_side_effect", attribute("true")}}});
  run_around(
      {"stablehlo.custom_call",
       {{"tensor<5x64xf32>"}, {"tensor<32x32xi8>"}, {"tensor<32x2xf16>"}, {"tensor<0x0xi8>"}, {"tensor<32x2xf16>"}},
       {"tensor<5x32xf32>"},
       {{"call_target_name", attribute("\"qmm_matmul_grouped\"")},
        {"backend_config", attribute("{bits = 4, group = 32}")},
        {"has_side_effect", attribute("true")}}});
  run_around({"stablehlo.custom_call",
              {{"tensor<5x64xf32>"}},
              {"tensor<5x32xf32>"},
              {{"call_target_name", attribute("\"other\"")}, {"has_side_effect", attribute("true")}}});
}

// Places in which an op can not be: each has to be said, or lowered to IR that verifies.
TEST_F(Malformed, Places) {
  const std::string op = R"("torch.operator"(%x, %w, %n, %lhs) {name = "quantized.matmul"}
    : (tensor<5x64xf32>, tensor<?xi8>, i64, !torch.str) -> tensor<5x32xf32>)";
  const std::string values = R"(
    %x = "x"() : () -> tensor<5x64xf32>
    %w = "w"() : () -> tensor<?xi8>
    %n = "torch.constant.int"() {value = 32 : i64} : () -> i64
    %lhs = "torch.constant.str"() {value = "s8"} : () -> !torch.str
  )";
  const std::string with_region =
      R"("torch.operator"(%x, %w, %n, %lhs) ({ "inner"() : () -> () }) {name = "quantized.matmul"}
    : (tensor<5x64xf32>, tensor<?xi8>, i64, !torch.str) -> tensor<5x32xf32>)";
  const std::string texts[] = {
      values + "%y = " + op,
      "module {" + values + "%y = " + op + "}",
      "module { func.func @f() {" + values + "%y = " + op + "\n return } }",
      "func.func @f() { \"graph\"() ({" + values + "%y = " + op + "\n}) : () -> () \n return }",
      "func.func @f() { \"graph\"() ({ %x = " + op + "\n" + values.substr(values.find("%w")) +
          "}) : () -> () \n return }",
      "func.func @f() {" + values + "%y = " + with_region + "\n return }",
      "func.func @f() {" + values + op + "[^out]\n^out: return }",
  };
  for (const std::string& text : texts) {
    SCOPED_TRACE(text);
    std::string said;
    mlir::ScopedDiagnosticHandler handler(&context_, [&](mlir::Diagnostic& diagnostic) {
      said += diagnostic.str();
      return mlir::success();
    });
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    if (!module) continue;  // MLIR itself refuses it
    mlir::PassManager manager(&context_);
    manager.enableVerifier(false);
    manager.addPass(create_lower_ops_pass());
    const bool lowered = mlir::succeeded(manager.run(*module));
    EXPECT_TRUE(lowered || !said.empty());
    EXPECT_TRUE(!lowered || mlir::succeeded(mlir::verify(*module))) << said;
  }
}

}  // namespace
}  // namespace qmm::test
