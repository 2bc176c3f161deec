// A device that does nothing, for torch for CPUs: backward passes on "cuda:0" need one. See pretended_gpu.py.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
using namespace c10;
struct CUDAHooks : at::CUDAHooksInterface {
  CUDAHooks(at::CUDAHooksArgs) {}
  bool isBuilt() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
};
namespace at { C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, CUDAHooks) }
struct Guard final : impl::DeviceGuardImplInterface {
  const Device device = Device(DeviceType::CUDA, 0);
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device) const override { return device; }
  Device getDevice() const override { return device; }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const override { return Stream(Stream::DEFAULT, device); }
  Stream exchangeStream(Stream) const override { return Stream(Stream::DEFAULT, device); }
  DeviceIndex deviceCount() const noexcept override { return 1; }
};
static const impl::DeviceGuardImplRegistrar registered(DeviceType::CUDA, new Guard());
