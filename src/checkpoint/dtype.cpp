#include "checkpoint/dtype.h"

#include "base/error.h"

namespace titan::checkpoint {
namespace {

struct Row {
  c10::ScalarType dtype;
  const char* tag;
  const char* name;
};

using c10::ScalarType;
constexpr Row kTypes[] = {
    {ScalarType::Double, "F64", "float64"},
    {ScalarType::Float, "F32", "float32"},
    {ScalarType::BFloat16, "BF16", "bfloat16"},
    {ScalarType::Half, "F16", "float16"},
    {ScalarType::Float8_e4m3fn, "F8_E4M3", "float8_e4m3fn"},
    {ScalarType::Float8_e5m2, "F8_E5M2", "float8_e5m2"},
    {ScalarType::Long, "I64", "int64"},
    {ScalarType::Int, "I32", "int32"},
    {ScalarType::Short, "I16", "int16"},
    {ScalarType::Char, "I8", "int8"},
    {ScalarType::UInt64, "U64", "uint64"},
    {ScalarType::UInt32, "U32", "uint32"},
    {ScalarType::UInt16, "U16", "uint16"},
    {ScalarType::Byte, "U8", "uint8"},
    {ScalarType::Bool, "BOOL", "bool"},
};

}  // namespace

std::optional<ScalarType> dtype_of_tag(std::string_view tag) {
  for (const auto& row : kTypes) {
    if (tag == row.tag) return row.dtype;
  }
  return std::nullopt;
}

std::string tag_of_dtype(ScalarType dtype) {
  for (const auto& row : kTypes) {
    if (dtype == row.dtype) return row.tag;
  }
  throw Error("[checkpoint] tensors of type {} cannot be stored in safetensors files",
              c10::toString(dtype));
}

std::string dtype_name(ScalarType dtype) {
  for (const auto& row : kTypes) {
    if (dtype == row.dtype) return row.name;
  }
  return c10::toString(dtype);
}

std::optional<ScalarType> floating_dtype(std::string_view name) {
  for (const auto& row : kTypes) {
    if (name == row.name && (row.dtype == ScalarType::Double || row.dtype == ScalarType::Float ||
                             row.dtype == ScalarType::BFloat16 || row.dtype == ScalarType::Half)) {
      return row.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace titan::checkpoint
