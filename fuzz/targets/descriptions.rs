#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| dlrun_fuzz::descriptions(data));
