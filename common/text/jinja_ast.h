#pragma once

// A parsed template. Immutable, shared by all renders. The parser bounds its depth, so that evaluating and destroying
// it recursively is safe.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/text/jinja_lexer.h"
#include "common/text/jinja_value.h"

namespace baton::jinja {

// Index into Program::symbols: names of variables are compared as integers.
using Symbol = int;

enum class Operator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> keyword;
  ExpressionPtr more_positional;  // *expression
  ExpressionPtr more_keyword;     // **expression
};

struct Expression {
  enum class Kind {
    kConstant,      // constant
    kName,          // symbol, name
    kNamespaceRef,  // symbol, name of the attribute; only as a target of set
    kAttribute,     // operands[0].name
    kItem,          // operands[0][operands[1]]
    kSlice,         // operands[0][operands[1]:operands[2]:operands[3]], the last three may be null
    kCall,          // operands[0](arguments)
    kFilter,        // operands[0] | name(arguments); a null operand stands for a block's body
    kTest,          // operands[0] is name(arguments)
    kNot,
    kNegate,
    kPlus,  // operands[0]
    kAnd,
    kOr,           // operands[0], operands[1]
    kArithmetic,   // operands[0] op operands[1]
    kCompare,      // operands[0] comparisons[0] operands[1] comparisons[1] operands[2]...
    kConcatenate,  // operands, with ~
    kConditional,  // operands[0] if operands[1] else operands[2], which may be null
    kList,
    kTuple,  // operands
    kDict,   // key, value, key, value...
  };
  Kind kind = Kind::kConstant;
  Position at;
  int height = 1;
  Symbol symbol = -1;
  Operator op = Operator::kAdd;
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> operands;
  std::vector<Comparison> comparisons;
  std::unique_ptr<CallArguments> arguments;
};

struct Parameter {
  Symbol symbol;
  std::string name;
  ExpressionPtr default_value;  // null: none
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Statement {
  enum class Kind {
    kText,      // constant
    kPrint,     // value
    kSet,       // target = value
    kSetBlock,  // target = body, through the filter `value` unless null
    kFor,       // for target in value if test: body; otherwise
    kIf,        // branches in order, then otherwise
    kMacro,     // symbol, name, parameters, body
    kCall,      // call `value` with body as its caller, a macro with `parameters`
    kFilter,    // body through the filter `value`
    kWith,      // assignments, body
    kScope,     // body in a scope of its own (generation)
    kBreak,
    kContinue,
  };
  struct Branch {
    ExpressionPtr test;
    Block body;
  };
  Kind kind = Kind::kText;
  Position at;
  Value constant;
  Symbol symbol = -1;
  std::string name;
  ExpressionPtr target, value, test;
  Block body, otherwise;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> assignments;
};

struct Program {
  Block body;
  std::vector<std::string> symbols;
};

}  // namespace baton::jinja
