#include "services/cli/utf8_check.h"

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/text/utf8.h"

namespace baton::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

absl::Status CheckText(const std::string& text, const std::string& path) {
  const std::optional<size_t> invalid = FirstInvalidUtf8(text);
  if (!invalid) return absl::OkStatus();
  return InvalidArgument("%s is not UTF-8: byte 0x%02x at offset %d", path, static_cast<uint8_t>(text[*invalid]),
                         *invalid);
}

absl::Status CheckMessage(const Message& message, const std::string& prefix) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool is_text = field->type() == FieldDescriptor::TYPE_STRING;
    if (!is_text && field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string path = prefix + std::string(field->name());
    if (!field->is_repeated()) {
      BATON_RETURN_IF_ERROR(is_text ? CheckText(reflection.GetString(message, field), path)
                                    : CheckMessage(reflection.GetMessage(message, field), path + "."));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      const std::string element = path + "[" + std::to_string(i) + "]";
      BATON_RETURN_IF_ERROR(is_text ? CheckText(reflection.GetRepeatedString(message, field, i), element)
                                    : CheckMessage(reflection.GetRepeatedMessage(message, field, i), element + "."));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckUtf8(const Message& message) { return CheckMessage(message, ""); }

}  // namespace baton::cli
