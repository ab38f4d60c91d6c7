//! Calls of NVML that `nvml-wrapper` lacks, or makes in a way that does not hold here.
//!
//! - Its field values have no scope, and NVLink's counters are per link without one.
//! - It gives an event set up where registering one GPU fails, and does not know instances of slices.

use std::mem;

use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample};
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlDevice_t, nvmlEventSet_t, nvmlEventTypeXidCriticalError, nvmlFieldValue_t,
    nvmlReturn_t,
};

use crate::observe::monitor::gpu::{GpuError, GpuProcess};

/// What the wrapper says, as far as it makes a difference here.
pub(super) fn error_of(error: &NvmlError) -> GpuError {
    match error {
        NvmlError::NotSupported
        | NvmlError::FunctionNotFound
        | NvmlError::FailedToLoadSymbol(_) => GpuError::NotSupported,
        NvmlError::NoPermission => GpuError::NoPermission,
        // An argument is wrong where a slice was taken apart and its handle is none any more.
        NvmlError::NotFound | NvmlError::NoData | NvmlError::InvalidArg => GpuError::NotFound,
        NvmlError::GpuLost | NvmlError::ResetRequired => GpuError::Lost,
        NvmlError::Uninitialized | NvmlError::DriverNotLoaded => GpuError::NoDriver,
        other => GpuError::Driver(other.to_string()),
    }
}

fn check(code: nvmlReturn_t) -> Result<(), NvmlError> {
    nvml_wrapper::error::nvml_try(code)
}

/// Calls a function of the library, if it has it.
macro_rules! call {
    ($lib:expr, $name:ident ( $($argument:expr),* )) => {
        match &$lib.$name {
            // SAFETY: the signature is that of NVML's header; pointers are to live values of the callee's types.
            Ok(function) => check(unsafe { function($($argument),*) }),
            Err(error) => Err(NvmlError::FailedToLoadSymbol(error.to_string())),
        }
    };
}

/// A zeroed value of one of NVML's plain structures.
macro_rules! zeroed {
    ($structure:ty) => {
        // SAFETY: the structure has integers, floats and pointers only; zero is a value of each.
        unsafe { mem::zeroed::<$structure>() }
    };
}

/// The number of the GPU instance that a MIG slice is.
pub(super) fn gpu_instance(lib: &NvmlLib, slice: nvmlDevice_t) -> Result<u32, NvmlError> {
    let mut id = 0;
    call!(lib, nvmlDeviceGetGpuInstanceId(slice, &raw mut id))?;
    Ok(id)
}

/// Wants XID errors of a GPU in an event set.
pub(super) fn register_xids(
    lib: &NvmlLib,
    device: nvmlDevice_t,
    set: nvmlEventSet_t,
) -> Result<(), NvmlError> {
    call!(
        lib,
        nvmlDeviceRegisterEvents(device, u64::from(nvmlEventTypeXidCriticalError), set)
    )
}

/// Values of several fields in one call, each asked for with its scope. They come in the order of `fields`: the id in
/// an answer is no key, since drivers renumber ids.
pub(super) fn fields<const N: usize>(
    lib: &NvmlLib,
    device: nvmlDevice_t,
    fields: [(u32, u32); N],
) -> Result<[Option<u64>; N], NvmlError> {
    let mut values = fields.map(|(id, scope)| {
        let mut value = zeroed!(nvmlFieldValue_t);
        (value.fieldId, value.scopeId) = (id, scope);
        value
    });
    let count = i32::try_from(N).unwrap_or(0);
    call!(
        lib,
        nvmlDeviceGetFieldValues(device, count, values.as_mut_ptr())
    )?;
    if let Some(Err(lost @ NvmlError::GpuLost)) =
        values.first().map(|value| check(value.nvmlReturn))
    {
        return Err(lost);
    }
    Ok(values.map(|value| field_value(&value)))
}

/// A field's value, whatever its type (`nvmlValueType_t`); `None` where it has none.
fn field_value(field: &nvmlFieldValue_t) -> Option<u64> {
    check(field.nvmlReturn).ok()?;
    // SAFETY: the union has plain numbers only, and the type says which one was written.
    unsafe {
        match field.valueType {
            1 => Some(u64::from(field.value.uiVal)),
            2 => Some(field.value.ulVal),
            3 => Some(field.value.ullVal),
            4 => u64::try_from(field.value.sllVal).ok(),
            5 => u64::try_from(field.value.siVal).ok(),
            6 => Some(u64::from(field.value.usVal)),
            _ => None,
        }
    }
}

/// Processes with a compute context on a GPU, without their use of the processors.
pub(super) fn compute_processes(device: &Device<'_>) -> Result<Vec<GpuProcess>, NvmlError> {
    let found = match device.running_compute_processes() {
        // More than five began between its two calls.
        Err(NvmlError::InsufficientSize(_)) => device.running_compute_processes(),
        found => found,
    };
    let process = |process: ProcessInfo| GpuProcess {
        pid: process.pid,
        mem_bytes: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        },
        sm_percent: None,
    };
    Ok(none_if_not_found(found)?.into_iter().map(process).collect())
}

/// Samples of the use of the processors by processes, younger than `last_seen_us` (Unix microseconds). Processes that used nothing
/// have none.
pub(super) fn process_utilisation(
    device: &Device<'_>,
    last_seen_us: u64,
) -> Result<Vec<ProcessUtilizationSample>, NvmlError> {
    none_if_not_found(device.process_utilization_stats(last_seen_us))
}

fn none_if_not_found<T>(found: Result<Vec<T>, NvmlError>) -> Result<Vec<T>, NvmlError> {
    match found {
        Err(NvmlError::NotFound) => Ok(Vec::new()),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_that_an_old_driver_lacks_is_a_value_that_is_not_supported() {
        let missing = NvmlError::FailedToLoadSymbol("undefined symbol: nvmlX".into());
        assert_eq!(error_of(&missing), GpuError::NotSupported);
        assert_eq!(error_of(&NvmlError::ResetRequired), GpuError::Lost);
        let other = error_of(&NvmlError::IrqIssue);
        assert_eq!(
            other.to_string(),
            "the GPU driver failed: NVIDIA kernel detected an interrupt issue with a device"
        );
    }
}
