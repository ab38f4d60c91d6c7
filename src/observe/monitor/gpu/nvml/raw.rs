//! Calls of NVML that `nvml-wrapper` lacks, or makes in a way that does not hold here.
//!
//! - Its field values have no scope, and NVLink's counters are per link without one.
//! - It asks for the size of a list and then for the list, without room for what appears between the two.
//! - Its memory call is of driver 510 and later.

use std::mem;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlDevice_t, nvmlEventSet_t, nvmlEventTypeXidCriticalError, nvmlFieldValue_t,
    nvmlGpmMetricsGet_t, nvmlGpmSample_t, nvmlProcessInfo_t, nvmlProcessUtilizationSample_t,
    nvmlReturn_t,
};

use crate::observe::monitor::gpu::{GpuError, GpuProcess};

/// `NVML_VALUE_NOT_AVAILABLE` in 64 bits.
const NO_VALUE: u64 = u64::MAX;
/// Entries that a list may grow by between two calls.
const HEADROOM: usize = 16;
/// Tries for a list that grows faster than that.
const TRIES: usize = 3;

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

/// Memory in use as drivers before 510 say it: with what the driver reserves.
pub(super) fn memory_used_v1(lib: &NvmlLib, device: nvmlDevice_t) -> Result<(u64, u64), NvmlError> {
    let mut memory = zeroed!(nvml_wrapper_sys::bindings::nvmlMemory_t);
    call!(lib, nvmlDeviceGetMemoryInfo(device, &raw mut memory))?;
    Ok((memory.used, memory.total))
}

/// `nvmlClocksEventReason…` bits, also those that the wrapper does not know.
pub(super) fn throttle_reasons(lib: &NvmlLib, device: nvmlDevice_t) -> Result<u64, NvmlError> {
    let mut reasons = 0;
    call!(
        lib,
        nvmlDeviceGetCurrentClocksThrottleReasons(device, &raw mut reasons)
    )?;
    Ok(reasons)
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

/// Asks for a list until the room suffices. `ask` gets the room and returns the entries and how many there are, or what
/// it failed with.
fn list<T: Copy>(
    empty: T,
    known: usize,
    mut ask: impl FnMut(&mut Vec<T>, &mut u32) -> Result<(), NvmlError>,
) -> Result<Vec<T>, NvmlError> {
    let mut room = known + HEADROOM;
    let mut tries = 0;
    loop {
        let mut entries = vec![empty; room];
        let mut count = u32::try_from(room).unwrap_or(u32::MAX);
        let answer = ask(&mut entries, &mut count);
        let count = usize::try_from(count).unwrap_or(0);
        tries += 1;
        match answer {
            Ok(()) => {
                entries.truncate(count);
                return Ok(entries);
            }
            Err(NvmlError::NotFound) => return Ok(Vec::new()),
            Err(NvmlError::InsufficientSize(_)) if tries < TRIES => {
                room = count.max(room) + HEADROOM
            }
            Err(error) => return Err(error),
        }
    }
}

/// Processes with a compute context on a GPU, without their use of the processors. `known` is how many there were.
pub(super) fn compute_processes(
    lib: &NvmlLib,
    device: nvmlDevice_t,
    known: usize,
) -> Result<Vec<GpuProcess>, NvmlError> {
    let found = list(zeroed!(nvmlProcessInfo_t), known, |entries, count| {
        let (count, entries) = (&raw mut *count, entries.as_mut_ptr());
        match &lib.nvmlDeviceGetComputeRunningProcesses_v3 {
            Ok(_) => call!(
                lib,
                nvmlDeviceGetComputeRunningProcesses_v3(device, count, entries)
            ),
            // Before driver 510; the entries are the same.
            Err(_) => call!(
                lib,
                nvmlDeviceGetComputeRunningProcesses_v2(device, count, entries)
            ),
        }
    })?;
    let mem_bytes =
        |process: &nvmlProcessInfo_t| Some(process.usedGpuMemory).filter(|b| *b != NO_VALUE);
    Ok(found
        .iter()
        .map(|p| GpuProcess {
            pid: p.pid,
            mem_bytes: mem_bytes(p),
            sm_percent: None,
        })
        .collect())
}

/// Samples of the use of the processors by processes, as (pid, time in Unix microseconds, percent), younger than
/// `last_seen_us`. Processes that used nothing have none.
pub(super) fn process_utilisation(
    lib: &NvmlLib,
    device: nvmlDevice_t,
    last_seen_us: u64,
) -> Result<Vec<(u32, u64, u32)>, NvmlError> {
    // The ring of the driver has some hundred samples; what is asked for every second is a few per process.
    let found = list(
        zeroed!(nvmlProcessUtilizationSample_t),
        2 * HEADROOM,
        |entries, count| {
            let (count, entries) = (&raw mut *count, entries.as_mut_ptr());
            call!(
                lib,
                nvmlDeviceGetProcessUtilization(device, entries, count, last_seen_us)
            )
        },
    )?;
    Ok(found
        .iter()
        .map(|sample| (sample.pid, sample.timeStamp, sample.smUtil))
        .collect())
}

/// GPM metrics between two samples, in percent, in the order of `metrics`.
pub(super) fn gpm_metrics<const N: usize>(
    lib: &NvmlLib,
    (before, after): (nvmlGpmSample_t, nvmlGpmSample_t),
    metrics: [u32; N],
) -> Result<[Option<f64>; N], NvmlError> {
    let mut request = Box::new(zeroed!(nvmlGpmMetricsGet_t));
    request.version = nvml_wrapper_sys::bindings::NVML_GPM_METRICS_GET_VERSION;
    request.numMetrics = u32::try_from(N).unwrap_or(0);
    (request.sample1, request.sample2) = (before, after);
    for (slot, id) in request.metrics.iter_mut().zip(metrics) {
        slot.metricId = id;
    }
    call!(lib, nvmlGpmMetricsGet(&raw mut *request))?;
    Ok(std::array::from_fn(|at| {
        let metric = request.metrics.get(at)?;
        check(metric.nvmlReturn)
            .is_ok()
            .then_some(metric.value)
            .filter(|value| value.is_finite())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_grows_between_the_calls_is_asked_for_again() {
        let mut sizes = [40_u32, 60, 60].into_iter();
        let ask = |entries: &mut Vec<u8>, count: &mut u32| {
            let size = sizes.next().expect("three tries");
            let fits = usize::try_from(size).expect("small") <= entries.len();
            *count = size;
            if fits {
                Ok(())
            } else {
                Err(NvmlError::InsufficientSize(None))
            }
        };
        assert_eq!(
            list(0_u8, 0, ask)
                .map(|entries| entries.len())
                .expect("the third fits"),
            60
        );
        let never = |_: &mut Vec<u8>, _: &mut u32| Err(NvmlError::InsufficientSize(None));
        assert!(matches!(
            list(0_u8, 0, never),
            Err(NvmlError::InsufficientSize(_))
        ));
        assert!(
            list(0_u8, 0, |_, _| Err(NvmlError::NotFound))
                .expect("nothing new")
                .is_empty()
        );
    }

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
