#include "comm/collectives.h"

#include <torch/csrc/autograd/custom_function.h>

namespace titan::comm {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// Saved data holds IValues only.
struct GroupHolder : torch::CustomClassHolder {
  explicit GroupHolder(Group held) : group(std::move(held)) {}
  Group group;
};

struct Gather : torch::autograd::Function<Gather> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Group& group, int64_t dim) {
    keep_group(ctx, group);
    ctx->saved_data["dim"] = dim;
    return group.all_gather(x, dim);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {kept_group(ctx).reduce_scatter(grads[0], ctx->saved_data["dim"].toInt()), Tensor(),
            Tensor()};
  }
};

struct ReduceScatter : torch::autograd::Function<ReduceScatter> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Group& group, int64_t dim) {
    keep_group(ctx, group);
    ctx->saved_data["dim"] = dim;
    return group.reduce_scatter(x, dim);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {kept_group(ctx).all_gather(grads[0], ctx->saved_data["dim"].toInt()), Tensor(),
            Tensor()};
  }
};

struct ReduceSum : torch::autograd::Function<ReduceSum> {
  static Tensor forward(AutogradContext*, const Tensor& x, const Group& group) {
    return group.all_reduce(x);
  }
  static variable_list backward(AutogradContext*, variable_list grads) {
    return {grads[0], Tensor()};
  }
};

struct Replicate : torch::autograd::Function<Replicate> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Group& group) {
    keep_group(ctx, group);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {kept_group(ctx).all_reduce(grads[0]), Tensor()};
  }
};

struct AllToAll : torch::autograd::Function<AllToAll> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Group& group,
                        int64_t split_dim, int64_t concat_dim) {
    keep_group(ctx, group);
    ctx->saved_data["split"] = split_dim;
    ctx->saved_data["concat"] = concat_dim;
    return group.all_to_all(x, split_dim, concat_dim);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {kept_group(ctx).all_to_all(grads[0], ctx->saved_data["concat"].toInt(),
                                       ctx->saved_data["split"].toInt()),
            Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

void keep_group(AutogradContext* ctx, const Group& group) {
  ctx->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<GroupHolder>(group));
}

Group kept_group(AutogradContext* ctx) {
  const auto capsule = ctx->saved_data["group"].toCapsule();
  return c10::static_intrusive_pointer_cast<GroupHolder>(capsule)->group;
}

Tensor gather(const Tensor& x, const Group& group, int64_t dim) {
  return group.size() == 1 ? x : Gather::apply(x, group, dim);
}

Tensor reduce_scatter(const Tensor& x, const Group& group, int64_t dim) {
  return group.size() == 1 ? x : ReduceScatter::apply(x, group, dim);
}

Tensor reduce(const Tensor& x, const Group& group) {
  return group.size() == 1 ? x : ReduceSum::apply(x, group);
}

Tensor replicate(const Tensor& x, const Group& group) {
  return group.size() == 1 ? x : Replicate::apply(x, group);
}

Tensor all_to_all(const Tensor& x, const Group& group, int64_t split_dim, int64_t concat_dim) {
  return group.size() == 1 ? x : AllToAll::apply(x, group, split_dim, concat_dim);
}

}  // namespace titan::comm
