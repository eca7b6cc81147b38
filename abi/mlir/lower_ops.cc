// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// qmm-lower-ops: ops become calls of libqmm's memref entry points. An op is stated in one of three forms, in generic
// form where its dialect is not registered:
//
//   "torch.operator"(%x, %packed, %n, %lhs) {name = "torch.quantized.matmul.packed"}
//   linalg.generic {library_call = "quantized.matmul.packed{lhs = \"s8\"}", ...} ins(%x, %packed) outs(%y)
//   "stablehlo.custom_call"(%x, %packed) {call_target_name = "quantized.matmul.packed", backend_config = {lhs = "s8"}}
//
// The last two give integers and strings in a dictionary, and no operand for a tensor that is not given; an extent of
// the result, as n is, may be left to the type of the result. A stablehlo.custom_call of another target becomes a call
// of a C function of that name. With api_version 3, what an op of libqmm is given is the descriptor of qmm/xla.h.
//
// Constant weights, packed or canonical, become one constant of packed weights.
//
// A call on tensors has to stay one operation until bufferization has decided which tensors share memory. So each entry
// point gets a private wrapper from tensors to tensors, which allocates the results and passes memrefs on:
//
//   func.func private @qmm_matmul_packed.tensors(tensor<?x?xf32>, tensor<?xi8>, i64, index) -> tensor<?x?xf32>
//
// where the index is the columns of the result, which has the rows of the first tensor. The lowering on torch-mlir's
// bindings, abi/python/libqmm/mlir, leaves the same calls.
#include "../xla_descriptor.h"
#include "group_quant.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "ops.h"
#include "passes.h"
#include "tensors.h"
#include "types.h"
#include "weights.h"

namespace qmm {
namespace {

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::MemRefType;
using mlir::OpBuilder;
using mlir::Operation;
using mlir::RankedTensorType;
using mlir::ShapedType;
using mlir::success;
using mlir::Type;
using mlir::Value;
using ops::Argument;
using ops::Call;
using ops::Extent;
using ops::Given;
using ops::Op;

// The element type that stands for a dtype of the table in a memref.
Type element_type(mlir::MLIRContext* context, StringRef dtype) {
  mlir::Builder builder(context);
  return llvm::StringSwitch<Type>(dtype)
      .Case("f32", builder.getF32Type())
      .Case("f16", builder.getF16Type())
      .Case("bf16", builder.getBF16Type())
      .Case("i64", builder.getI64Type())
      .Default(builder.getI8Type());
}

SmallVector<int64_t> dynamic(int64_t rank) {
  return SmallVector<int64_t>(static_cast<size_t>(rank), ShapedType::kDynamic);
}

// A memref of any extents and offset, and of any strides or of dense rows.
MemRefType strided(int64_t rank, Type element, bool dense_rows) {
  SmallVector<int64_t> strides = dynamic(rank);
  if (dense_rows && rank > 0) strides.back() = 1;
  return MemRefType::get(dynamic(rank), element,
                         mlir::StridedLayoutAttr::get(element.getContext(), ShapedType::kDynamic, strides));
}

// ---- names ---------------------------------------------------------------------------------------------------------

// The op of the table that has a name: one of those in programs, that of its schema, or that of its entry point, which
// is what libqmm's handlers for XLA are called.
const Op* find_target(StringRef name) {
  for (const Op& op : ops::table())
    if (!name.empty() && (name == StringRef(op.callee) || name == StringRef(op.name))) return &op;
  return ops::find_op(name);
}

// Whether a name that the table does not have can be meant for nobody else.
bool is_ours(StringRef name) {
  name.consume_front("torch.");
  return name.starts_with("qmm_") || name.starts_with("quantized.") || name.starts_with("quantized::");
}

LogicalResult unknown_name(Operation* operation, StringRef name) {
  StringRef nearest;
  for (const Op& op : ops::table()) {
    SmallVector<StringRef> names = {op.callee, op.name};
    names.append(op.names.begin(), op.names.end());
    for (const StringRef known : names)
      if (!known.empty() && (nearest.empty() || name.edit_distance(known) < name.edit_distance(nearest)))
        nearest = known;
  }
  return operation->emitError() << name << " is none of libqmm's ops; did you mean " << nearest << "?";
}

// ---- what is called ------------------------------------------------------------------------------------------------

// A function to call: what it takes, in order, and the memrefs that it writes, which follow.
struct Entry {
  std::string name;
  SmallVector<Type> inputs;
  SmallVector<MemRefType> results;
  // Of the results. Rows that are not known are those of the first input; columns that are not known follow the inputs
  // of the wrapper.
  SmallVector<SmallVector<int64_t>> shapes;
};

// The declarations and wrappers in a module.
class Callees {
 public:
  explicit Callees(mlir::ModuleOp module) : module_(module), symbols_(module) {}

  // Declares `entry` for C, unless that is done.
  LogicalResult declare(const Entry& entry, Operation* user) {
    SmallVector<Type> inputs(entry.inputs);
    llvm::append_range(inputs, entry.results);
    const auto type = mlir::FunctionType::get(module_.getContext(), inputs, {});
    Operation* const known = symbols_.lookup(entry.name);
    auto function = llvm::dyn_cast_or_null<mlir::func::FuncOp>(known);
    if (known == nullptr) {
      function = mlir::func::FuncOp::create(user->getLoc(), entry.name, type);
      function.setPrivate();
      symbols_.insert(function);
    } else if (!function || !function.isExternal() || function.getFunctionType() != type) {
      auto error = user->emitError() << "is a call of @" << entry.name << " " << type;
      error.attachNote(known->getLoc()) << "which is something else here";
      return error;
    }
    function->setAttr(mlir::LLVM::LLVMDialect::getEmitCWrapperAttrName(), mlir::UnitAttr::get(module_.getContext()));
    return success();
  }

  // Returns the wrapper of `entry`, and declares both unless that is done.
  FailureOr<mlir::func::FuncOp> wrapper(const Entry& entry, Operation* user) {
    if (mlir::failed(declare(entry, user))) return failure();
    const Type index = mlir::IndexType::get(module_.getContext());
    SmallVector<Type> inputs, results;
    for (const Type type : entry.inputs) {
      const auto memref = llvm::dyn_cast<MemRefType>(type);
      inputs.push_back(memref ? RankedTensorType::get(memref.getShape(), memref.getElementType()) : type);
    }
    for (const auto& [shape, memref] : llvm::zip_equal(entry.shapes, entry.results)) {
      if (!shape.empty() && ShapedType::isDynamic(shape.back())) inputs.push_back(index);
      results.push_back(RankedTensorType::get(shape, memref.getElementType()));
    }
    const auto type = mlir::FunctionType::get(module_.getContext(), inputs, results);
    mlir::func::FuncOp& function = wrappers_[{entry.name, type.getAsOpaquePointer()}];
    if (function) return function;

    const mlir::Location at = user->getLoc();
    function = mlir::func::FuncOp::create(at, entry.name + kWrapper.str(), type);
    function.setPrivate();
    symbols_.insert(function);
    OpBuilder builder = OpBuilder::atBlockEnd(function.addEntryBlock());
    SmallVector<Value> arguments, buffers;
    for (const auto [i, input] : llvm::enumerate(entry.inputs)) {
      const Value value = function.getArgument(static_cast<unsigned>(i));
      const auto memref = llvm::dyn_cast<MemRefType>(input);
      if (!memref) {
        arguments.push_back(value);
        continue;
      }
      // Of any strides, whatever the entry point takes: qmm-dense-operands copies where they do not fit.
      const MemRefType any = strided(memref.getRank(), memref.getElementType(), false);
      if (memref.getRank() > 0)
        function.setArgAttr(static_cast<unsigned>(i), mlir::bufferization::BufferizationDialect::kBufferLayoutAttrName,
                            mlir::AffineMapAttr::get(any.getLayout().getAffineMap()));
      const Value buffer = builder.create<mlir::bufferization::ToMemrefOp>(at, any, value, /*read_only=*/true);
      arguments.push_back(any == memref ? buffer : builder.create<mlir::memref::CastOp>(at, memref, buffer));
    }
    size_t next = entry.inputs.size();
    for (const auto& [shape, memref] : llvm::zip_equal(entry.shapes, entry.results)) {
      SmallVector<Value> extents;
      if (!shape.empty() && ShapedType::isDynamic(shape.front()))
        extents.push_back(builder.create<mlir::tensor::DimOp>(at, function.getArgument(0), 0));
      if (!shape.empty() && ShapedType::isDynamic(shape.back()))
        extents.push_back(function.getArgument(static_cast<unsigned>(next++)));
      buffers.push_back(builder.create<mlir::memref::AllocOp>(at, MemRefType::get(shape, memref.getElementType()),
                                                              extents, builder.getI64IntegerAttr(64)));
      arguments.push_back(builder.create<mlir::memref::CastOp>(at, memref, buffers.back()));
    }
    builder.create<mlir::func::CallOp>(at, entry.name, mlir::TypeRange(), arguments);
    SmallVector<Value> returned;
    for (const Value buffer : buffers)
      returned.push_back(
          builder.create<mlir::bufferization::ToTensorOp>(at, buffer, /*restrict=*/true, /*writable=*/true));
    builder.create<mlir::func::ReturnOp>(at, returned);
    return function;
  }

  // Adds bytes that are part of the program.
  mlir::LLVM::GlobalOp constant(StringRef name, StringRef bytes, mlir::Location at) {
    OpBuilder builder(module_.getContext());
    auto global = builder.create<mlir::LLVM::GlobalOp>(
        at, mlir::LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size()), /*isConstant=*/true,
        mlir::LLVM::Linkage::Internal, name, builder.getStringAttr(bytes), /*alignment=*/16);
    symbols_.insert(global);
    return global;
  }

 private:
  mlir::ModuleOp module_;
  mlir::SymbolTable symbols_;
  std::map<std::pair<std::string, const void*>, mlir::func::FuncOp> wrappers_;
};

// ---- what IR states ------------------------------------------------------------------------------------------------

// An op of the table as IR states it: a value where an argument is a tensor.
struct Statement {
  Operation* operation;
  const Op* op;
  std::vector<Given> given;
  SmallVector<Value> values;
  Call call;

  mlir::InFlightDiagnostic error() const { return operation->emitError() << StringRef(op->name) << ": "; }
};

Given given_tensor(const TensorType& type) {
  Given given;
  given.kind = Given::kTensor;
  for (const int64_t extent : type.builtin.getShape()) given.shape.emplace_back(extent);
  given.dtype = type.dtype;
  return given;
}

// Reads a tensor, or a memref where that is what there are.
std::optional<Given> read_shaped(Type type, bool on_memrefs = false) {
  if (on_memrefs) {
    const auto memref = llvm::dyn_cast<MemRefType>(type);
    if (!memref || !RankedTensorType::isValidElementType(memref.getElementType())) return std::nullopt;
    type = RankedTensorType::get(memref.getShape(), memref.getElementType());
  }
  const TensorType tensor = read_tensor_type(type);
  return tensor.builtin ? std::optional(given_tensor(tensor)) : std::nullopt;
}

std::optional<Given> read_constant(mlir::Attribute value) {
  Given given;
  if (const auto string = llvm::dyn_cast_or_null<mlir::StringAttr>(value)) {
    given.kind = Given::kString;
    given.string = string.getValue().str();
    return given;
  }
  const auto integer = llvm::dyn_cast_or_null<mlir::IntegerAttr>(value);
  if (!integer) return std::nullopt;
  const bool has_sign = !integer.getType().isUnsignedInteger() && !integer.getType().isInteger(1);
  const llvm::APInt bits =
      has_sign ? integer.getValue() : integer.getValue().zext(integer.getValue().getBitWidth() + 1);
  const std::optional<int64_t> value_64 = bits.trySExtValue();
  if (!value_64 || !Extent(*value_64).known()) return std::nullopt;
  given.kind = Given::kInteger;
  given.integer = *value_64;
  return given;
}

// Checks what is stated, with the type of its one result, and fills in the call.
LogicalResult check_statement(Statement& statement, Type result, bool on_memrefs = false) {
  if (const std::string sentence = ops::check(*statement.op, statement.given, statement.call); !sentence.empty())
    return statement.operation->emitError() << sentence;
  const std::optional<Given> stated = read_shaped(result, on_memrefs);
  // Extents that are not known equal any. But the type of a result may not promise what nothing holds it to; a memref's
  // extents are compared by the entry point.
  const auto is_promised = [&](size_t i) { return stated->shape[i].known() && !statement.call.shape[i].known(); };
  if (stated && stated->dtype == statement.call.dtype && stated->shape == statement.call.shape &&
      (on_memrefs || llvm::none_of(llvm::seq(stated->shape.size()), is_promised)))
    return success();
  Given expected;
  expected.kind = Given::kTensor;
  expected.shape = statement.call.shape;
  return statement.error() << "the result is " << ops::say(expected) << " of " << statement.call.dtype
                           << "; here it is stated to be " << result;
}

// ---- "torch.operator" ----------------------------------------------------------------------------------------------

// Reads arguments that are all operands, constants among them.
FailureOr<Statement> read_torch(Operation* operation, const Op& op) {
  Statement statement{operation, &op, {}, {}, {}};
  if (operation->getNumOperands() != op.arguments.size() || operation->getNumResults() != 1)
    return statement.error() << operation->getNumOperands() << " operands and " << operation->getNumResults()
                             << " results; it takes " << op.arguments.size() << " and has 1";
  for (const auto& [argument, value] : llvm::zip_equal(op.arguments, operation->getOperands())) {
    std::optional<Given> given = read_shaped(value.getType());
    statement.values.push_back(given ? value : Value());
    if (!given) {
      Operation* const owner = value.getDefiningOp();
      const StringRef name = owner == nullptr ? "" : owner->getName().getStringRef();
      if (name == "torch.constant.none")
        given = Given();
      else if (name.starts_with("torch.constant.") || name == "arith.constant")
        given = read_constant(owner->getAttr("value"));
    }
    if (!given)
      return statement.error() << StringRef(argument.name) << " is " << value.getType() << "; it must be "
                               << (argument.kind == Argument::kTensor ? "a tensor of known rank and dtype"
                                                                      : "a constant of the program");
    statement.given.push_back(*std::move(given));
  }
  if (mlir::failed(check_statement(statement, operation->getResult(0).getType()))) return failure();
  return statement;
}

// ---- forms with a dictionary ---------------------------------------------------------------------------------------

// Parses the text of a dictionary: {lhs = "s8"}. "" is an empty one.
mlir::DictionaryAttr parse_dictionary(StringRef text, mlir::MLIRContext* context) {
  if (text.trim().empty()) return mlir::DictionaryAttr::get(context);
  mlir::ScopedDiagnosticHandler quiet(context, [](mlir::Diagnostic&) { return success(); });
  return llvm::dyn_cast_or_null<mlir::DictionaryAttr>(mlir::parseAttribute(text, context));
}

// Reads arguments of which the tensors are operands, those not given left out, and the others in `dictionary`.
FailureOr<Statement> read_dictionary(Operation* operation, const Op& op, mlir::ValueRange operands,
                                     mlir::DictionaryAttr dictionary, Type result, bool on_memrefs) {
  Statement statement{operation, &op, {}, {}, {}};
  const std::optional<Given> stated = read_shaped(result, on_memrefs);
  SmallVector<size_t> optional;
  size_t needed = 0, named = 0;
  for (const auto [i, argument] : llvm::enumerate(op.arguments)) {
    Given given;
    if (argument.kind == Argument::kTensor) {
      argument.optional ? optional.push_back(i) : void(++needed);
    } else if (const mlir::Attribute value = dictionary.get(StringRef(argument.name))) {
      ++named;
      const std::optional<Given> constant = read_constant(value);
      if (!constant)
        return statement.error() << StringRef(argument.name) << " is " << value
                                 << "; it must be an integer or a string";
      given = *constant;
    } else if (static_cast<int>(i) == op.columns && stated && !stated->shape.empty() && stated->shape.back().known()) {
      given.kind = Given::kInteger;
      given.integer = stated->shape.back();
    } else if (!argument.default_choice.empty()) {
      given.kind = Given::kString;
      given.string = argument.default_choice;
    }
    statement.given.push_back(given);
  }
  if (named != dictionary.size())
    for (const mlir::NamedAttribute entry : dictionary)
      if (llvm::none_of(op.arguments, [&](const Argument& argument) {
            return argument.kind != Argument::kTensor && StringRef(argument.name) == entry.getName();
          }))
        return statement.error() << "none of its integers and strings is called " << entry.getName();
  if (operands.size() < needed || operands.size() > needed + optional.size())
    return statement.error() << operands.size() << " operands; it takes " << needed << " to "
                             << needed + optional.size() << " tensors";

  // Of the tensors that need not be given, those are that make the operands fit; or if none do, fit in their dtypes.
  std::string sentence;
  bool has_dtypes = false;
  const size_t left_out = needed + optional.size() - operands.size();
  for (uint64_t absent = 0; absent < uint64_t(1) << optional.size(); ++absent) {
    if (static_cast<size_t>(llvm::popcount(absent)) != left_out) continue;
    statement.values.assign(op.arguments.size(), Value());
    auto operand = operands.begin();
    for (const auto [i, argument] : llvm::enumerate(op.arguments)) {
      if (argument.kind != Argument::kTensor) continue;
      const auto* const found = llvm::find(optional, i);
      const bool is_absent = found != optional.end() && (absent >> (found - optional.begin()) & 1) != 0;
      statement.given[i] = Given();
      if (is_absent) continue;
      const std::optional<Given> given = read_shaped((*operand).getType(), on_memrefs);
      if (!given)
        return statement.error() << StringRef(argument.name) << " is " << (*operand).getType()
                                 << "; it must be a tensor of known rank and dtype";
      const bool is_empty = argument.optional && static_cast<int>(given->shape.size()) == argument.rank() &&
                            given->shape[0].known() && given->shape[0].value() == 0;
      if (!is_empty) {
        statement.given[i] = *given;
        statement.values[i] = *operand;
      }
      ++operand;
    }
    std::string failed = ops::check(op, statement.given, statement.call);
    if (failed.empty()) {
      if (mlir::failed(check_statement(statement, result, on_memrefs))) return failure();
      return statement;
    }
    if (sentence.empty() || (!has_dtypes && ops::has_dtypes(op, statement.given))) {
      sentence = std::move(failed);
      has_dtypes = ops::has_dtypes(op, statement.given);
    }
  }
  return operation->emitError() << sentence;
}

// ---- weights that the program holds --------------------------------------------------------------------------------

// Arguments of an op by name: a value where one is a tensor.
using Arguments = std::map<std::string_view, std::pair<Value, Given>>;

Arguments arguments_of(const Statement& statement) {
  Arguments arguments;
  for (const auto [i, argument] : llvm::enumerate(statement.op->arguments))
    arguments[argument.name] = {statement.values[i], statement.given[i]};
  return arguments;
}

std::pair<Value, Given> tensor_argument(Value value) {
  return {value, value ? given_tensor(read_tensor_type(value.getType())) : Given()};
}

// States `statement` in terms of another op; arguments that are not named are not given.
FailureOr<Statement> restate(const Statement& statement, const Op& op, const Arguments& arguments) {
  Statement restated{statement.operation, &op, {}, {}, {}};
  for (const Argument& argument : op.arguments) {
    const auto found = arguments.find(argument.name);
    const auto& [value, given] = found == arguments.end() ? std::pair<Value, Given>() : found->second;
    restated.values.push_back(value);
    restated.given.push_back(given);
  }
  if (const std::string sentence = ops::check(op, restated.given, restated.call); !sentence.empty())
    return statement.error() << sentence;
  return restated;
}

LogicalResult check_packed(const Statement& statement, const Literal& packed) {
  qmm_rhs rhs = {};
  rhs.struct_size = sizeof rhs;
  if (qmm_rhs_open(packed.bytes.data(), packed.bytes.size(), &rhs) != QMM_OK)
    return statement.error() << "packed [" << packed.bytes.size() << "]: " << qmm_last_error();
  Given shape;
  shape.kind = Given::kTensor;
  shape.shape = {rhs.desc.n, rhs.desc.k};
  const std::string sentence = statement.op->fit_packed(statement.given, shape);
  return sentence.empty() ? success() : LogicalResult(statement.error() << sentence);
}

// Returns k if x, or the rows of codes tell: the last byte of a row may hold one 4-bit code or two.
std::optional<int64_t> known_k(const Given& x, int64_t row_bytes, int64_t bits, int64_t group) {
  if (x.shape.back().known()) return x.shape.back().value();
  if (bits == 8) return row_bytes;
  return group == 2 * row_bytes - 1 || group == 2 * row_bytes ? std::optional(group) : std::nullopt;
}

Weights canonical(std::map<std::string_view, Literal>& literals, int64_t bits, const std::string& scale_dtype) {
  Weights weights;
  weights.desc.bits = static_cast<int32_t>(bits);
  weights.desc.scale_dtype = scale_dtype == "f32" ? QMM_F32 : scale_dtype == "f16" ? QMM_F16 : QMM_BF16;
  weights.desc.offset = literals.count("zeros") ? QMM_ZEROS : literals.count("mins") ? QMM_MINS : QMM_SYMMETRIC;
  weights.codes = std::move(literals["codes"].bytes);
  weights.scales = std::move(literals["scales"].bytes);
  if (weights.desc.offset != QMM_SYMMETRIC)
    weights.offsets = std::move(literals[weights.desc.offset == QMM_ZEROS ? "zeros" : "mins"].bytes);
  return weights;
}

// States an op by one that has an entry point: that on packed weights, where the weights are constant.
FailureOr<Statement> simplify(const Statement& statement, OpBuilder& builder) {
  const Op& op = *statement.op;
  static const Op& packed_op = *ops::find_op("quantized.matmul.packed");
  static const Op& grouped_op = *ops::find_op("quantized.matmul.grouped");
  const mlir::Location at = statement.operation->getLoc();
  std::map<std::string_view, Literal> literals;
  size_t weights_given = 0;
  for (size_t i = 1; i < op.arguments.size(); ++i) {
    if (!statement.values[i]) continue;
    ++weights_given;
    if (std::optional<Literal> literal = read_literal(statement.values[i]))
      literals[op.arguments[i].name] = *std::move(literal);
  }
  const bool is_constant = literals.size() == weights_given;
  if (op.fit_packed != nullptr)
    return is_constant && mlir::failed(check_packed(statement, literals["packed"])) ? FailureOr<Statement>(failure())
                                                                                    : FailureOr<Statement>(statement);

  Arguments arguments = arguments_of(statement);
  const Given& codes = arguments["codes"].second;
  const int64_t bits = arguments["bits"].second.integer.value(), group = arguments["group"].second.integer.value();
  const bool is_grouped = &op == &grouped_op, is_signed = codes.dtype == "i8";
  if (!is_grouped && codes.dtype == "8")
    return statement.error() << "codes are i8, which does not tell their sign; they must be ui8 or si8";
  if (!is_grouped) {
    arguments["lhs"].second.kind = Given::kString;
    arguments["lhs"].second.string = "f32";
  }
  const std::optional<int64_t> k =
      is_constant ? known_k(statement.given[0], literals["codes"].shape[1], bits, group) : std::nullopt;
  if (k) {
    const int64_t n = literals["codes"].shape[0], groups = (*k + group - 1) / group;
    for (const auto& [name, literal] : literals)  // whose shape the rules left open where x is of unknown k
      if (name != "codes" && ShapedType::getNumElements(literal.shape) != n * groups)
        return statement.error() << StringRef(name) << " have " << ShapedType::getNumElements(literal.shape)
                                 << " elements; for [" << n << ", " << *k << "] in groups of " << group
                                 << " they must have " << n * groups;
    Weights weights = is_grouped ? canonical(literals, bits, arguments["scales"].second.dtype)
                                 : group_quant::of_constants(std::move(literals["codes"]), literals["scales"],
                                                             literals["zps"], bits, is_signed);
    weights.desc.n = n;
    weights.desc.k = *k;
    weights.desc.group = group;
    std::vector<char> packed;
    if (const std::string sentence = pack(weights, packed); !sentence.empty()) return statement.error() << sentence;
    const auto type = RankedTensorType::get({static_cast<int64_t>(packed.size())}, builder.getI8Type());
    arguments["packed"] = tensor_argument(
        builder.create<mlir::arith::ConstantOp>(at, mlir::DenseElementsAttr::getFromRawBuffer(type, packed)));
    arguments["n"].second.kind = Given::kInteger;
    arguments["n"].second.integer = n;
    return restate(statement, packed_op, arguments);
  }
  if (is_grouped) return statement;
  const auto builtin = [&](std::string_view name) {
    const Value value = arguments[name].first;
    return cast(builder, at, value, read_tensor_type(value.getType()).builtin);
  };
  const auto zps = literals.find("zps");
  const group_quant::Values values =
      group_quant::of_values(builder, at, builtin("codes"), builtin("scales"), builtin("zps"),
                             zps == literals.end() ? std::nullopt : std::optional(zps->second), bits, is_signed);
  arguments["codes"] = tensor_argument(values.codes);
  arguments["scales"] = tensor_argument(values.scales);
  arguments["zeros"] = tensor_argument(values.zeros);
  arguments["mins"] = tensor_argument(values.mins);
  return restate(statement, grouped_op, arguments);
}

// ---- calls on tensors ----------------------------------------------------------------------------------------------

// The pointer and the size that stand for an argument of a function that is opaque bytes to the program.
using Externals = llvm::DenseMap<Value, std::pair<Value, Value>>;

// x and what is computed of it may have any strides, all else has dense rows.
bool takes_x(const Call& call) { return call.tensors[0].rank == 2; }

MemRefType input_of(const Call& call, size_t i, mlir::MLIRContext* context) {
  const Call::Tensor& tensor = call.tensors[i];
  return strided(tensor.rank, element_type(context, tensor.dtype), i != 0 || !takes_x(call));
}

MemRefType result_of(const Call& call, mlir::MLIRContext* context) {
  return strided(2, mlir::Float32Type::get(context), !takes_x(call));
}

LogicalResult lower_on_tensors(const Statement& stated, const Externals& externals, Callees& callees) {
  OpBuilder builder(stated.operation);
  const FailureOr<Statement> simplified = simplify(stated, builder);
  if (mlir::failed(simplified)) return failure();
  const Statement& statement = *simplified;
  const Call& call = statement.call;
  const mlir::Location at = statement.operation->getLoc();
  const Type i64 = builder.getI64Type();

  Entry entry{call.callee, {}, {result_of(call, builder.getContext())}, {dynamic(2)}};
  SmallVector<Value> arguments, tensors;
  const size_t leading = call.shape.size() - 1;
  for (const auto [i, tensor] : llvm::enumerate(call.tensors)) {
    const MemRefType memref = input_of(call, i, builder.getContext());
    const Value given = statement.values[tensor.argument];
    if (const auto external = externals.find(given); given && external != externals.end()) {
      if (tensor.rank != 1 || memref.getElementType() != builder.getI8Type())
        return statement.error() << StringRef(statement.op->arguments[tensor.argument].name)
                                 << " is external; only packed weights can be";
      entry.name = call.callee + "_external";
      llvm::append_values(arguments, external->second.first, external->second.second);
      llvm::append_range(entry.inputs, mlir::TypeRange{external->second.first.getType(), i64});
      tensors.push_back(given);
      continue;
    }
    Value value;
    if (given)
      value = convert(builder, at, cast(builder, at, given, read_tensor_type(given.getType()).builtin),
                      memref.getElementType());
    else  // no extent at all tells the entry point that an argument is not given
      value = builder.create<mlir::tensor::EmptyOp>(at, SmallVector<int64_t>(static_cast<size_t>(tensor.rank), 0),
                                                    memref.getElementType());
    tensors.push_back(value);
    if (i == 0) value = fold(builder, at, value, leading);
    arguments.push_back(cast(builder, at, value, RankedTensorType::get(memref.getShape(), memref.getElementType())));
    entry.inputs.push_back(memref);
  }
  for (const int64_t scalar : call.scalars) {
    arguments.push_back(builder.create<mlir::arith::ConstantOp>(at, builder.getI64IntegerAttr(scalar)));
    entry.inputs.push_back(i64);
  }
  const int64_t columns = call.shape.back().value();
  // Only canonical weights leave this extent unknown: the rows of their codes.
  arguments.push_back(ShapedType::isDynamic(columns)
                          ? Value(builder.create<mlir::tensor::DimOp>(at, tensors[1], 0))
                          : Value(builder.create<mlir::arith::ConstantIndexOp>(at, columns)));

  FailureOr<mlir::func::FuncOp> wrapper = callees.wrapper(entry, statement.operation);
  if (mlir::failed(wrapper)) return failure();
  Value result = builder.create<mlir::func::CallOp>(at, *wrapper, arguments).getResult(0);
  result = unfold(builder, at, result, tensors[0], leading, columns);
  result = convert(builder, at, result, element_type(builder.getContext(), call.dtype));
  const Type type = statement.operation->getResult(0).getType();
  result = cast(builder, at, result, read_tensor_type(type).builtin);
  statement.operation->getResult(0).replaceAllUsesWith(cast(builder, at, result, type));
  statement.operation->erase();
  return success();
}

// ---- calls on memrefs ----------------------------------------------------------------------------------------------

bool is_zero(Value value) { return mlir::matchPattern(value, mlir::m_AnyZeroFloat()); }

bool is_zero_fill(Operation* op) {
  auto fill = llvm::dyn_cast_or_null<mlir::linalg::FillOp>(op);
  return fill && is_zero(fill.getInputs()[0]);
}

// Returns the linalg.fill of `memref` with zeros that comes before `op`, with nothing between that reads or writes
// memory.
Operation* zero_fill_before(Operation* op, Value memref) {
  do op = op->getPrevNode();
  while (op != nullptr && (mlir::isMemoryEffectFree(op) || llvm::isa<mlir::memref::AllocOp>(op)));
  return is_zero_fill(op) && llvm::cast<mlir::linalg::FillOp>(op).getOutputs()[0] == memref ? op : nullptr;
}

// The buffer that a memref views.
Value buffer_of(Value value) {
  while (auto view = value.getDefiningOp<mlir::ViewLikeOpInterface>()) value = view.getViewSource();
  return value;
}

LogicalResult lower_on_memrefs(const Statement& statement, Value destination, Operation* fill, Callees& callees) {
  if (statement.op->callee.empty()) return statement.error() << "it can be lowered on tensors, not on memrefs";
  const Call& call = statement.call;
  OpBuilder builder(statement.operation);
  const mlir::Location at = statement.operation->getLoc();
  Entry entry{call.callee, {}, {result_of(call, builder.getContext())}, {dynamic(2)}};
  SmallVector<Value> arguments;
  const auto pass = [&](StringRef name, Value value, MemRefType type) -> LogicalResult {
    const auto given = llvm::cast<MemRefType>(value.getType());
    if (!mlir::memref::CastOp::areCastCompatible(given, type))
      return statement.error() << name << " is " << given << ", which can not be passed as " << type;
    arguments.push_back(given == type ? value : builder.create<mlir::memref::CastOp>(at, type, value));
    return success();
  };
  for (const auto [i, tensor] : llvm::enumerate(call.tensors)) {
    const MemRefType memref = input_of(call, i, builder.getContext());
    Value value = statement.values[tensor.argument];
    if (value && buffer_of(value) == buffer_of(destination))
      return statement.error() << StringRef(statement.op->arguments[tensor.argument].name)
                               << " and the result are of one buffer; the call reads one while it writes the other";
    if (!value)
      value = builder.create<mlir::memref::AllocaOp>(
          at, MemRefType::get(SmallVector<int64_t>(static_cast<size_t>(tensor.rank), 0), memref.getElementType()));
    if (mlir::failed(pass(statement.op->arguments[tensor.argument].name, value, memref))) return failure();
    entry.inputs.push_back(memref);
  }
  for (const int64_t scalar : call.scalars) {
    arguments.push_back(builder.create<mlir::arith::ConstantOp>(at, builder.getI64IntegerAttr(scalar)));
    entry.inputs.push_back(builder.getI64Type());
  }
  if (mlir::failed(pass("the result", destination, entry.results[0])) ||
      mlir::failed(callees.declare(entry, statement.operation)))
    return failure();
  builder.create<mlir::func::CallOp>(at, entry.name, mlir::TypeRange(), arguments);
  statement.operation->erase();
  if (fill != nullptr) fill->erase();  // the call writes all of it
  return success();
}

// Whether the loops around a body that nobody reads are those of the op: the leading extents of the first operand are
// those of the output, its others are reduced, and the last one of the output is not of it.
bool has_loops_of_op(mlir::linalg::GenericOp generic) {
  if (generic.getNumDpsInputs() == 0) return true;  // which is said with the number of operands
  const auto maps = generic.getIndexingMapsArray();
  const auto loops = generic.getIteratorTypesArray();
  const ArrayRef<mlir::AffineExpr> in = maps.front().getResults(), out = maps.back().getResults();
  if (out.empty() || in.size() + 1 < out.size()) return true;  // so is this, with the ranks
  const auto column = llvm::dyn_cast<mlir::AffineDimExpr>(out.back());
  return column && !maps.front().isFunctionOfDim(column.getPosition()) &&
         in.take_front(out.size() - 1) == out.drop_back() &&
         llvm::all_of(in.drop_front(out.size() - 1), [&](mlir::AffineExpr expression) {
           const auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expression);
           return dim && loops[dim.getPosition()] == mlir::utils::IteratorType::reduction;
         });
}

// The destination of linalg.generic is where its body starts from; ours starts from zeros.
LogicalResult lower_linalg(mlir::linalg::GenericOp generic, const Op& op, StringRef text, const Externals& externals,
                           Callees& callees) {
  const auto dictionary = parse_dictionary(text, generic.getContext());
  if (!dictionary)
    return generic.emitError() << "library_call is \"" << *generic.getLibraryCall() << "\"; after the name must come a "
                               << "dictionary: {bits = 4, lhs = \"s8\"}";
  if (generic.getNumDpsInits() != 1)
    return generic.emitError() << StringRef(op.name) << ": " << generic.getNumDpsInits() << " outputs; it has 1";
  if (!generic.hasPureTensorSemantics() && !generic.hasPureBufferSemantics())
    return generic.emitError() << StringRef(op.name) << ": operands must be all tensors or all memrefs";
  if (!has_loops_of_op(generic))
    return generic.emitError() << StringRef(op.name) << ": indexing_maps are " << generic.getIndexingMaps()
                               << "; of x (m, k) and y (m, n), m must be the same, and k reduced";
  const bool on_memrefs = generic.hasPureBufferSemantics();
  const Value destination = generic.getDpsInits()[0];
  Operation* const fill = on_memrefs ? zero_fill_before(generic, destination) : nullptr;
  if (fill == nullptr && !is_zero_fill(destination.getDefiningOp()) && !is_zero(destination) &&
      !generic.getRegionOutputArgs()[0].use_empty())
    return generic.emitError() << StringRef(op.name)
                               << ": the body reads the output, which must be linalg.fill of 0 then";
  FailureOr<Statement> statement =
      read_dictionary(generic, op, generic.getDpsInputs(), dictionary, destination.getType(), on_memrefs);
  if (mlir::failed(statement)) return failure();
  return on_memrefs ? lower_on_memrefs(*statement, destination, fill, callees)
                    : lower_on_tensors(*statement, externals, callees);
}

// ---- "stablehlo.custom_call" ---------------------------------------------------------------------------------------

// Whether layouts, as XLA gives them, are those of memrefs without strides.
bool is_row_major(mlir::Attribute attribute) {
  if (!attribute) return true;
  const auto layouts = llvm::dyn_cast<mlir::ArrayAttr>(attribute);
  return layouts && llvm::all_of(layouts, [](mlir::Attribute layout) {
           const auto order = llvm::dyn_cast<mlir::DenseIntElementsAttr>(layout);
           if (!order) return false;
           int64_t expected = order.getNumElements();
           return llvm::all_of(order.getValues<llvm::APInt>(),
                               [&](const llvm::APInt& axis) { return axis == static_cast<uint64_t>(--expected); });
         });
}

// A target that is not in the table: @target(operands, backend_config as pointer and size if it is there, results).
LogicalResult lower_foreign(Operation* operation, StringRef target, mlir::Attribute config, const Externals& externals,
                            bool is_dead, Callees& callees) {
  const auto in_memref = [](Type type) {
    const RankedTensorType tensor = read_tensor_type(type).builtin;
    return tensor && MemRefType::isValidElementType(tensor.getElementType()) ? tensor : RankedTensorType();
  };
  for (const auto [i, operand] : llvm::enumerate(operation->getOperands()))
    if (!externals.contains(operand) && !in_memref(operand.getType()))
      return operation->emitError() << "operand " << i << " of @" << target << " is " << operand.getType()
                                    << "; it must be a tensor of known rank and dtype";
  for (const auto [i, type] : llvm::enumerate(operation->getResultTypes()))
    if (const RankedTensorType tensor = in_memref(type); !tensor || !tensor.hasStaticShape())
      return operation->emitError() << "result " << i << " of @" << target << " is " << type
                                    << "; it must be a tensor of known shape";
  const auto text = llvm::dyn_cast_or_null<mlir::StringAttr>(config);
  if (config && !text && config != mlir::DictionaryAttr::get(operation->getContext()))
    return operation->emitError() << "backend_config of @" << target << " is " << config
                                  << "; to a C function only a string can be passed";
  if (is_dead) {
    operation->erase();
    return success();
  }

  OpBuilder builder(operation);
  const mlir::Location at = operation->getLoc();
  Entry entry{target.str(), {}, {}, {}};
  SmallVector<Value> arguments;
  for (const Value operand : operation->getOperands()) {
    if (const auto external = externals.find(operand); external != externals.end()) {
      llvm::append_values(arguments, external->second.first, external->second.second);
      llvm::append_range(entry.inputs, mlir::TypeRange{external->second.first.getType(), builder.getI64Type()});
      continue;
    }
    const RankedTensorType type = read_tensor_type(operand.getType()).builtin;
    const auto dynamic_type = RankedTensorType::get(dynamic(type.getRank()), type.getElementType());
    arguments.push_back(cast(builder, at, cast(builder, at, operand, type), dynamic_type));
    entry.inputs.push_back(strided(type.getRank(), type.getElementType(), false));
  }
  if (text && !text.empty()) {
    const auto size = builder.getI64IntegerAttr(static_cast<int64_t>(text.size()));
    arguments.push_back(
        builder.create<mlir::LLVM::AddressOfOp>(at, callees.constant((target + ".backend_config").str(), text, at)));
    arguments.push_back(builder.create<mlir::arith::ConstantOp>(at, size));
    llvm::append_range(entry.inputs,
                       mlir::TypeRange{mlir::LLVM::LLVMPointerType::get(builder.getContext()), builder.getI64Type()});
  }
  for (const Type type : operation->getResultTypes()) {
    const RankedTensorType tensor = read_tensor_type(type).builtin;
    entry.results.push_back(strided(tensor.getRank(), tensor.getElementType(), false));
    entry.shapes.emplace_back(tensor.getShape());
  }
  FailureOr<mlir::func::FuncOp> wrapper = callees.wrapper(entry, operation);
  if (mlir::failed(wrapper)) return failure();
  auto call = builder.create<mlir::func::CallOp>(at, *wrapper, arguments);
  for (auto [result, value] : llvm::zip_equal(operation->getResults(), call.getResults()))
    result.replaceAllUsesWith(cast(builder, at, value, result.getType()));
  operation->erase();
  return success();
}

// Reads a typed call, whose attributes are a dictionary, or the text of one.
FailureOr<Statement> read_typed(Operation* operation, const Op& op, mlir::Attribute config) {
  const auto text = llvm::dyn_cast_or_null<mlir::StringAttr>(config);
  const auto dictionary = text || !config ? parse_dictionary(text ? text.getValue() : "", operation->getContext())
                                          : llvm::dyn_cast<mlir::DictionaryAttr>(config);
  if (!dictionary)
    return operation->emitError() << StringRef(op.name) << ": backend_config is " << config
                                  << "; it must be a dictionary: {bits = 4, lhs = \"s8\"}";
  return read_dictionary(operation, op, operation->getOperands(), dictionary, operation->getResult(0).getType(),
                         /*on_memrefs=*/false);
}

constexpr int64_t kTyped = 4, kUntyped = 3;

// Reads XLA's number for what a target is. None of its C functions takes memrefs, and attributes are what its version 4
// has, and what programs give that leave the version out (1, or 0, in StableHLO).
FailureOr<int64_t> read_api_version(Operation* operation, const Op* op) {
  const mlir::Attribute attribute = operation->getAttr("api_version");
  if (!attribute) return kTyped;
  const std::optional<Given> given = read_constant(attribute);
  const int64_t version = given && given->kind == Given::kInteger ? given->integer.value() : -1;
  if (version == 0 || version == 1) return kTyped;
  if (op != nullptr && (version == kTyped || (version == kUntyped && !op->callee.empty()))) return version;
  auto error = operation->emitError() << "api_version is " << attribute;
  if (op == nullptr) return error << "; a C function that is called with memrefs has none, leave it out";
  return error << "; of the versions, libqmm takes 4, with attributes, and 3, with a descriptor";
}

// Reads an untyped call, whose operands are all tensors of the op; those that the descriptor says are absent may be
// any.
FailureOr<Statement> read_untyped(Operation* operation, const Op& op, mlir::Attribute config) {
  Statement statement{operation, &op, {}, {}, {}};
  const auto bytes = llvm::dyn_cast_or_null<mlir::StringAttr>(config);
  const StringRef text = bytes ? bytes.getValue() : "";
  qmm_xla_descriptor d;
  if (config && !bytes)
    return statement.error() << "backend_config is " << config << "; for api_version 3 it must be a string";
  if (read_descriptor(std::string(op.callee).c_str(), text.data(), text.size(), &d) != QMM_OK)
    return operation->emitError() << qmm_last_error();
  const std::map<std::string_view, int64_t> integers = {
      {"n", d.n}, {"k", d.k}, {"bits", d.bits}, {"group", d.group}, {"lhs", d.lhs_kind}};
  const std::map<std::string_view, int32_t> offsets = {{"zeros", QMM_ZEROS}, {"mins", QMM_MINS}};
  const auto needed = llvm::count_if(op.arguments, [](const Argument& a) { return a.kind == Argument::kTensor; });
  if (operation->getNumOperands() != needed)
    return statement.error() << operation->getNumOperands() << " operands; an untyped call takes " << needed;

  auto operand = operation->operand_begin();
  for (const Argument& argument : op.arguments) {
    Given given;
    Value value;
    if (argument.kind == Argument::kTensor) {
      value = *operand++;
      const auto offset = offsets.find(argument.name);
      const std::optional<Given> tensor = read_shaped(value.getType());
      if (offset != offsets.end() && offset->second != d.offset)
        value = Value();
      else if (tensor)
        given = *tensor;
      else
        return statement.error() << StringRef(argument.name) << " is " << value.getType()
                                 << "; it must be a tensor of known rank and dtype";
      if (value && !argument.passed_as.empty() && given.dtype != argument.passed_as)
        return statement.error() << StringRef(argument.name) << " is " << given.dtype
                                 << "; in an untyped call it must be " << StringRef(argument.passed_as);
    } else {
      given.kind = Given::kInteger;
      given.integer = integers.at(argument.name);
      if (!given.integer.known())  // the number that stands for an extent that is not known
        return statement.error() << StringRef(argument.name) << " is " << integers.at(argument.name)
                                 << " in the descriptor";
      if (argument.kind == Argument::kChoice) {
        const auto choice =
            llvm::find_if(argument.choices, [&](const auto& pair) { return given.integer == pair.second; });
        if (choice == argument.choices.end())
          return statement.error() << "lhs_kind is " << d.lhs_kind << " in the descriptor";
        given.kind = Given::kString;
        given.string = choice->first;
      }
    }
    statement.values.push_back(value);
    statement.given.push_back(given);
  }
  if (mlir::failed(check_statement(statement, operation->getResult(0).getType()))) return failure();

  // What is to be seen of the operands as well.
  const Given& rows = statement.given[0];
  const size_t leading = rows.shape.size() - static_cast<size_t>(op.arguments[0].extents);
  Extent m = 1;
  for (size_t i = 0; i < leading; ++i) m = m * rows.shape[i];
  std::vector<std::tuple<StringRef, int64_t, Extent>> extents = {{"m", d.m, m}};
  if (leading < rows.shape.size()) extents.emplace_back("k", d.k, rows.shape.back());
  const Given& weights = statement.given[1];
  if (op.fit_packed != nullptr) {
    extents.emplace_back("packed_size", d.packed_size, weights.shape[0]);
  } else {
    constexpr const char* kDtypes[] = {"f32", "f16", "bf16"};  // QMM_F32 ...
    const std::string& scales = statement.given[2].dtype;
    extents.emplace_back("n", d.n, weights.shape[0]);
    if (d.scale_dtype < 0 || d.scale_dtype > 2 || scales != kDtypes[d.scale_dtype])
      return statement.error() << "scale_dtype is " << d.scale_dtype << " in the descriptor; the scales are " << scales;
    if (d.offset < QMM_SYMMETRIC || d.offset > QMM_MINS)
      return statement.error() << "offset is " << d.offset << " in the descriptor";
  }
  for (const auto& [name, said, extent] : extents)
    if (!extent.known() || extent.value() != said)
      return statement.error() << name << " is " << said << " in the descriptor; that of the operands is "
                               << ops::say(extent);
  return statement;
}

LogicalResult lower_custom_call(Operation* operation, const Externals& externals, Callees& callees) {
  const auto target = operation->getAttrOfType<mlir::StringAttr>("call_target_name");
  if (!target || target.empty()) return operation->emitError("call_target_name must be a string, and not empty");
  const mlir::Attribute effect = operation->getAttr("has_side_effect");
  if (effect && !llvm::isa<mlir::BoolAttr>(effect))
    return operation->emitError() << "has_side_effect is " << effect << "; it must be true or false";
  for (const StringRef name : {"operand_layouts", "result_layouts"})
    if (!is_row_major(operation->getAttr(name)))
      return operation->emitError() << name << " is " << operation->getAttr(name) << "; tensors must be row-major";
  for (const StringRef name : {"called_computations", "output_operand_aliases"})
    if (const auto list = operation->getAttr(name); list && list != mlir::ArrayAttr::get(list.getContext(), {}))
      return operation->emitError() << name << " is " << list << "; it must be empty";
  // Without side effects, a call that nobody reads does nothing: it goes, once it is checked.
  const bool is_dead = operation->use_empty() && !(effect && llvm::cast<mlir::BoolAttr>(effect).getValue());

  // JAX leaves backend_config empty, and gives a dictionary here.
  mlir::Attribute config = operation->getAttr("backend_config");
  if (const mlir::Attribute mhlo = operation->getAttr("mhlo.backend_config")) {
    if (config && config != mlir::StringAttr::get(operation->getContext(), ""))
      return operation->emitError() << "backend_config is " << config << ", mhlo.backend_config " << mhlo
                                    << "; only one of them can be given";
    config = mhlo;
  }
  const Op* const op = find_target(target);
  if (op == nullptr && is_ours(target)) return unknown_name(operation, target);
  const FailureOr<int64_t> version = read_api_version(operation, op);
  if (mlir::failed(version)) return failure();
  if (op == nullptr) return lower_foreign(operation, target, config, externals, is_dead, callees);
  if (operation->getNumResults() != 1)
    return operation->emitError() << StringRef(op->name) << ": " << operation->getNumResults() << " results; it has 1";
  const FailureOr<Statement> statement =
      *version == kUntyped ? read_untyped(operation, *op, config) : read_typed(operation, *op, config);
  if (mlir::failed(statement)) return failure();
  if (!is_dead) return lower_on_tensors(*statement, externals, callees);
  operation->erase();
  return success();
}

// ---- the pass ------------------------------------------------------------------------------------------------------

// Whether an argument is annotated {qmm.external = true}, or so with the prefix of any other dialect: MLIR wants one,
// and XLA takes those of its own dialects alone.
bool is_external(mlir::func::FuncOp function, unsigned argument) {
  return llvm::any_of(mlir::function_interface_impl::getArgAttrs(function, argument),
                      [](mlir::NamedAttribute attribute) {
                        const auto is_set = llvm::dyn_cast<mlir::BoolAttr>(attribute.getValue());
                        return attribute.getName().getValue().ends_with(".external") &&
                               (llvm::isa<mlir::UnitAttr>(attribute.getValue()) || (is_set && is_set.getValue()));
                      });
}

// Gives the exported functions of a module a pointer and a size, in bytes, for each argument annotated external.
LogicalResult add_pointers(mlir::ModuleOp module, Externals& externals) {
  for (auto function : module.getOps<mlir::func::FuncOp>())
    for (unsigned i = function.getNumArguments(); i-- > 0;) {
      if (!is_external(function, i)) continue;
      const RankedTensorType type = read_tensor_type(function.getArgumentTypes()[i]).builtin;
      if (!type || type.getRank() != 1 || !type.getElementType().isInteger(8))
        return function.emitError() << "argument " << i << " is external and " << function.getArgumentTypes()[i]
                                    << "; it must be a tensor of bytes of rank 1";
      if (function.isExternal() || !function.isPublic() || !mlir::SymbolTable::symbolKnownUseEmpty(function, module))
        return function.emitError() << "argument " << i
                                    << " is external; that is for exported functions, which the module does not call";
      const auto pointer = mlir::LLVM::LLVMPointerType::get(module.getContext());
      const auto size = mlir::IntegerType::get(module.getContext(), 64);
      const mlir::Location at = function.getArgument(i).getLoc();
      const auto none = mlir::DictionaryAttr::get(module.getContext());
      function.insertArgument(i + 1, pointer, none, at);
      function.insertArgument(i + 2, size, none, at);
      externals[function.getArgument(i)] = {function.getArgument(i + 1), function.getArgument(i + 2)};
    }
  return success();
}

LogicalResult drop_tensors(const Externals& externals) {
  for (const auto& [value, pointer] : externals) {
    const auto argument = llvm::cast<mlir::BlockArgument>(value);
    if (!argument.use_empty())
      return argument.use_begin()->getOwner()->emitError()
             << "reads argument " << argument.getArgNumber() << ", which is external; only custom calls take it";
  }
  for (const auto& [value, pointer] : externals) {
    const auto argument = llvm::cast<mlir::BlockArgument>(value);
    llvm::cast<mlir::func::FuncOp>(argument.getOwner()->getParentOp()).eraseArgument(argument.getArgNumber());
  }
  return success();
}

struct LowerOps : mlir::PassWrapper<LowerOps, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerOps)

  StringRef getArgument() const final { return "qmm-lower-ops"; }
  StringRef getDescription() const final {
    return "Replace quantized ops in torch.operator, linalg.generic and stablehlo.custom_call by calls of libqmm";
  }
  void getDependentDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<mlir::arith::ArithDialect, mlir::bufferization::BufferizationDialect, mlir::cf::ControlFlowDialect,
                    mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::LLVM::LLVMDialect,
                    mlir::memref::MemRefDialect, mlir::tensor::TensorDialect>();
  }

  void runOnOperation() override {
    if (mlir::failed(lower(getOperation()))) signalPassFailure();
  }

  static LogicalResult lower(mlir::ModuleOp module) {
    Externals externals;
    if (mlir::failed(add_pointers(module, externals))) return failure();
    Callees callees(module);
    // Inner operations first, since one may lie in the body of another.
    SmallVector<Operation*> operations;
    module.walk([&](Operation* op) { operations.push_back(op); });
    bool failed = false;
    for (Operation* op : operations) failed |= mlir::failed(lower(op, module, externals, callees));
    return failed ? failure() : drop_tensors(externals);
  }

  static LogicalResult lower(Operation* operation, mlir::ModuleOp module, const Externals& externals,
                             Callees& callees) {
    const StringRef kind = operation->getName().getStringRef();
    auto generic = llvm::dyn_cast<mlir::linalg::GenericOp>(operation);
    StringRef name, text;
    if (generic && generic.getLibraryCall()) {
      const StringRef call = *generic.getLibraryCall();
      text = call.drop_until([](char c) { return c == '{'; });
      name = call.drop_back(text.size()).trim();
    } else if (const auto attribute = operation->getAttrOfType<mlir::StringAttr>("name"); attribute) {
      if (kind == "torch.operator") name = attribute;
    }
    const Op* const op = find_target(name);
    if (op == nullptr && generic && is_ours(name)) return unknown_name(operation, name);
    if (op == nullptr && kind != "stablehlo.custom_call") return success();
    if (operation->getParentOfType<mlir::func::FuncOp>() == nullptr ||
        mlir::SymbolTable::getNearestSymbolTable(operation) != module)
      return operation->emitError("is in no function of the module that is lowered");
    if (operation->getNumSuccessors() != 0 || (!generic && operation->getNumRegions() != 0))
      return operation->emitError("has regions or successors; it takes none");
    if (generic) return lower_linalg(generic, *op, text, externals, callees);
    if (kind == "stablehlo.custom_call") return lower_custom_call(operation, externals, callees);
    FailureOr<Statement> statement = read_torch(operation, *op);
    return mlir::failed(statement) ? failure() : lower_on_tensors(*statement, externals, callees);
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> create_lower_ops_pass() { return std::make_unique<LowerOps>(); }

}  // namespace qmm
