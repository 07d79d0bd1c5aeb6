#include "common/text/jinja_parser.h"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "common/text/jinja_expression_parser.h"

namespace baton::jinja {

namespace {

constexpr size_t kMaximumSource = 4u << 20;
constexpr int kMaximumBlockNesting = 60;

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  absl::StatusOr<std::shared_ptr<const Program>> Run() {
    auto program = std::make_shared<Program>();
    BATON_ASSIGN_OR_RETURN(program->body, ParseUntil({}));
    BATON_RETURN_IF_ERROR(expressions_.CheckKnown());
    program->symbols = expressions_.symbols();
    return std::shared_ptr<const Program>(std::move(program));
  }

 private:
  using Kind = Statement::Kind;
  using Result = absl::StatusOr<std::unique_ptr<Statement>>;
  using Names = std::initializer_list<std::string_view>;

  static std::unique_ptr<Statement> New(Kind kind, Position at) {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->at = at;
    return statement;
  }

  // Statements up to a tag whose name is in `ends`; that name is then the current token. Without ends: to the end.
  absl::StatusOr<Block> ParseUntil(Names ends) {
    Block block;
    while (tokens_.Current().kind != Token::Kind::kEnd) {
      const Token& token = tokens_.Current();
      if (token.kind == Token::Kind::kText) {
        auto text = New(Kind::kText, token.at);
        text->constant = String(std::make_shared<StringBody>(Text(token.text, Origin::kTemplate), nullptr));
        block.push_back(std::move(text));
        tokens_.Advance();
      } else if (token.kind == Token::Kind::kVariableBegin) {
        auto print = New(Kind::kPrint, token.at);
        tokens_.Advance();
        BATON_ASSIGN_OR_RETURN(print->value, expressions_.ParseTuple());
        BATON_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kVariableEnd, "the end of the expression"));
        block.push_back(std::move(print));
      } else {
        tokens_.Advance();
        if (tokens_.IsAnyName(ends)) return block;
        BATON_ASSIGN_OR_RETURN(auto statement, ParseStatement());
        BATON_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kBlockEnd, "the end of the tag"));
        block.push_back(std::move(statement));
      }
    }
    if (ends.size() > 0) return tokens_.Unexpected("'" + std::string(*(ends.end() - 1)) + "'");
    return block;
  }

  // The rest of a tag, then a body up to one of `ends`.
  absl::StatusOr<Block> ParseBody(Names ends) {
    tokens_.SkipOperator(":");
    BATON_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kBlockEnd, "the end of the tag"));
    if (depth_ >= kMaximumBlockNesting) {
      return SyntaxError(tokens_.Current().at,
                         "blocks nested deeper than the limit of " + std::to_string(kMaximumBlockNesting));
    }
    ++depth_;
    absl::StatusOr<Block> body = ParseUntil(ends);
    --depth_;
    return body;
  }
  absl::StatusOr<Block> ParseLastBody(std::string_view end) {
    absl::StatusOr<Block> body = ParseBody({end});
    if (body.ok()) tokens_.Advance();
    return body;
  }

  Result ParseStatement() {
    const Position at = tokens_.Current().at;
    BATON_ASSIGN_OR_RETURN(const std::string name, tokens_.TakeName());
    if (name == "set") return ParseSet(at);
    if (name == "for") return ParseFor(at);
    if (name == "if") return ParseIf(at);
    if (name == "macro") return ParseMacro(at);
    if (name == "call") return ParseCallBlock(at);
    if (name == "filter") return ParseFilterBlock(at);
    if (name == "with") return ParseWith(at);
    if (name == "print") return ParsePrint(at);
    if (name == "generation") return ParseGeneration(at);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) return SyntaxError(at, "'" + name + "' outside of a loop");
      return New(name == "break" ? Kind::kBreak : Kind::kContinue, at);
    }
    return SyntaxError(at, "unknown tag '" + name.substr(0, 40) + "'");
  }

  Result ParseSet(Position at) {
    auto statement = New(Kind::kSet, at);
    BATON_ASSIGN_OR_RETURN(statement->target, expressions_.ParseTarget(true));
    if (tokens_.SkipOperator("=")) {
      BATON_ASSIGN_OR_RETURN(statement->value, expressions_.ParseTuple());
      return statement;
    }
    statement->kind = Kind::kSetBlock;
    BATON_ASSIGN_OR_RETURN(statement->value, expressions_.ParseFilters(nullptr));
    BATON_ASSIGN_OR_RETURN(statement->body, ParseLastBody("endset"));
    return statement;
  }

  Result ParseFor(Position at) {
    auto statement = New(Kind::kFor, at);
    BATON_ASSIGN_OR_RETURN(statement->target, expressions_.ParseTarget(false));
    BATON_RETURN_IF_ERROR(tokens_.ExpectName("in"));
    BATON_ASSIGN_OR_RETURN(statement->value, expressions_.ParseTuple(false, "recursive"));
    if (tokens_.SkipName("if")) {
      BATON_ASSIGN_OR_RETURN(statement->test, expressions_.ParseExpression());
    }
    if (tokens_.IsName("recursive")) return SyntaxError(tokens_.Current().at, "recursive loops are not supported");
    ++loops_;
    BATON_ASSIGN_OR_RETURN(statement->body, ParseBody({"else", "endfor"}));
    --loops_;
    const bool has_else = tokens_.IsName("else");
    tokens_.Advance();
    if (has_else) {
      BATON_ASSIGN_OR_RETURN(statement->otherwise, ParseLastBody("endfor"));
    }
    return statement;
  }

  Result ParseIf(Position at) {
    auto statement = New(Kind::kIf, at);
    expressions_.EnterCondition();
    while (true) {
      Statement::Branch& branch = statement->branches.emplace_back();
      BATON_ASSIGN_OR_RETURN(branch.test, expressions_.ParseTuple(false));
      BATON_ASSIGN_OR_RETURN(branch.body, ParseBody({"elif", "else", "endif"}));
      if (!tokens_.SkipName("elif")) break;
    }
    const bool has_else = tokens_.IsName("else");
    tokens_.Advance();
    if (has_else) {
      BATON_ASSIGN_OR_RETURN(statement->otherwise, ParseLastBody("endif"));
    }
    expressions_.LeaveCondition();
    return statement;
  }

  absl::StatusOr<std::vector<Parameter>> ParseParameters() {
    std::vector<Parameter> parameters;
    BATON_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
    while (!tokens_.IsOperator(")")) {
      if (!parameters.empty()) BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      Parameter& parameter = parameters.emplace_back();
      BATON_ASSIGN_OR_RETURN(parameter.name, tokens_.TakeName());
      parameter.symbol = expressions_.Intern(parameter.name);
      if (tokens_.SkipOperator("=")) {
        BATON_ASSIGN_OR_RETURN(parameter.default_value, expressions_.ParseExpression());
      } else if (parameters.size() > 1 && parameters[parameters.size() - 2].default_value != nullptr) {
        return SyntaxError(tokens_.Current().at, "parameter without a default after one with a default");
      }
    }
    tokens_.Advance();
    return parameters;
  }

  // A macro is no part of the loop around it.
  absl::StatusOr<Block> ParseMacroBody(std::string_view end) {
    const int outer_loops = std::exchange(loops_, 0);
    absl::StatusOr<Block> body = ParseLastBody(end);
    loops_ = outer_loops;
    return body;
  }

  Result ParseMacro(Position at) {
    auto statement = New(Kind::kMacro, at);
    BATON_ASSIGN_OR_RETURN(statement->name, tokens_.TakeName());
    statement->symbol = expressions_.Intern(statement->name);
    BATON_ASSIGN_OR_RETURN(statement->parameters, ParseParameters());
    BATON_ASSIGN_OR_RETURN(statement->body, ParseMacroBody("endmacro"));
    return statement;
  }

  Result ParseCallBlock(Position at) {
    auto statement = New(Kind::kCall, at);
    statement->name = "caller";
    if (tokens_.IsOperator("(")) {
      BATON_ASSIGN_OR_RETURN(statement->parameters, ParseParameters());
    }
    BATON_ASSIGN_OR_RETURN(statement->value, expressions_.ParseExpression());
    if (statement->value->kind != Expression::Kind::kCall) return SyntaxError(statement->value->at, "expected a call");
    BATON_ASSIGN_OR_RETURN(statement->body, ParseMacroBody("endcall"));
    return statement;
  }

  Result ParseFilterBlock(Position at) {
    auto statement = New(Kind::kFilter, at);
    BATON_ASSIGN_OR_RETURN(statement->value, expressions_.ParseFilters(nullptr, true));
    BATON_ASSIGN_OR_RETURN(statement->body, ParseLastBody("endfilter"));
    return statement;
  }

  Result ParseWith(Position at) {
    auto statement = New(Kind::kWith, at);
    while (tokens_.Current().kind != Token::Kind::kBlockEnd) {
      if (!statement->assignments.empty()) BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      auto& [target, value] = statement->assignments.emplace_back();
      BATON_ASSIGN_OR_RETURN(target, expressions_.ParseTarget(false, false));
      BATON_RETURN_IF_ERROR(tokens_.ExpectOperator("="));
      BATON_ASSIGN_OR_RETURN(value, expressions_.ParseExpression());
    }
    BATON_ASSIGN_OR_RETURN(statement->body, ParseLastBody("endwith"));
    return statement;
  }

  Result ParsePrint(Position at) {
    auto statement = New(Kind::kPrint, at);
    BATON_ASSIGN_OR_RETURN(statement->value, expressions_.ParseTuple());
    return statement;
  }

  // Marks what a model was trained to write; for a prompt only its body matters.
  Result ParseGeneration(Position at) {
    auto statement = New(Kind::kScope, at);
    BATON_ASSIGN_OR_RETURN(statement->body, ParseLastBody("endgeneration"));
    return statement;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Program>> ParseProgram(std::string_view source) {
  if (source.size() > kMaximumSource) {
    return FailedPrecondition("chat template has %d bytes, the limit is %d", source.size(), kMaximumSource);
  }
  BATON_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return StatementParser(std::move(tokens)).Run();
}

}  // namespace baton::jinja
