//! What GPUs do, and for whom.
//!
//! A [`GpuReader`] asks one vendor's driver; [`Nvml`] is NVIDIA's. Any call into a driver can hang, so nobody but
//! [`GpuWatch`] calls a reader: it has its own thread and hands out what that last read. Nothing here opens a CUDA
//! context: watching takes no memory of a GPU and does not show as a process on it.

mod allocation;
mod nvml;
mod place;
mod reader;
mod share;
mod watch;

pub use allocation::{allocated_gpus, gpu_driver_present};
pub use nvml::Nvml;
pub use reader::{GpuError, GpuProcess, GpuRead, GpuReader, GpuXid};
pub use watch::{GpuCondition, GpuReport, GpuState, GpuWatch, WatchPace};
