//! The configuration as the trace carries it: what was chosen, and nothing else.

use super::{
    BufferConfig, BufferExhaustedPolicy, BuiltinDataSources, Compression, DataSourceConfig,
    FillPolicy, LockdownMode, TraceAttributeValue, TraceConfig, Trigger, TriggerConfig,
    WriteFlushMode,
};
use tracezero_core::protos;

/// Calls the setter of a field whose value is not the default.
macro_rules! set {
    ($out:ident.$setter:ident($value:expr)) => {
        if $value != Default::default() {
            $out.$setter($value);
        }
    };
}

impl TraceConfig {
    /// Writes this configuration as the trace carries it.
    pub(crate) fn write(&self, out: &mut protos::TraceConfig<'_>) {
        for buffer in &self.buffers {
            out.add_buffers(|out| buffer.write(out));
        }
        for data_source in &self.data_sources {
            out.add_data_sources(|out| data_source.write(out));
        }
        if self.builtin_data_sources != BuiltinDataSources::new() {
            out.builtin_data_sources(|out| self.builtin_data_sources.write(out));
        }
        for memory in &self.shared_memory {
            out.add_producers(|out| {
                if let Some(name) = &memory.producer_name {
                    out.set_producer_name(name);
                }
                set!(out.set_shm_size_kb(memory.size_kb));
                set!(out.set_page_size_kb(memory.page_size_kb));
            });
        }
        if self.incremental_state_clear_period_ms != 0 {
            out.incremental_state_config(|out| {
                out.set_clear_period_ms(self.incremental_state_clear_period_ms);
            });
        }
        self.write_life_cycle(out);
        self.write_output(out);
    }

    fn write_life_cycle(&self, out: &mut protos::TraceConfig<'_>) {
        use protos::trace_config::LockdownModeOperation;
        set!(out.set_deferred_start(self.deferred_start));
        set!(out.set_duration_ms(self.duration_ms));
        set!(out.set_prefer_suspend_clock_for_duration(self.prefer_suspend_clock_for_duration));
        set!(out.set_data_source_stop_timeout_ms(self.data_source_stop_timeout_ms));
        if let Some(triggers) = &self.trigger_config {
            out.trigger_config(|out| triggers.write(out));
        }
        set!(out.set_enable_extra_guardrails(self.enable_extra_guardrails));
        if self.guardrail_max_tracing_buffer_size_kb != 0 {
            out.guardrail_overrides(|out| {
                out.set_max_tracing_buffer_size_kb(self.guardrail_max_tracing_buffer_size_kb);
            });
        }
        if self.lockdown_mode != LockdownMode::Unchanged {
            out.set_lockdown_mode(LockdownModeOperation(self.lockdown_mode as i32));
        }
        if let Some(name) = &self.unique_session_name {
            out.set_unique_session_name(name);
        }
        for semaphore in &self.session_semaphores {
            out.add_session_semaphores(|out| {
                out.set_name(&semaphore.name);
                out.set_max_other_session_count(semaphore.max_other_session_count);
            });
        }
        set!(out.set_exclusive_prio(self.exclusive_prio));
    }

    fn write_output(&self, out: &mut protos::TraceConfig<'_>) {
        use protos::trace_config::{FFlushMode, WriteFlushMode as Mode};
        set!(out.set_write_into_file(self.write_into_file));
        if let Some(path) = &self.output_path {
            out.set_output_path(path);
        }
        set!(out.set_file_write_period_ms(self.file_write_period_ms));
        set!(out.set_max_file_size_bytes(self.max_file_size_bytes));
        set!(out.set_flush_period_ms(self.flush_period_ms));
        set!(out.set_flush_timeout_ms(self.flush_timeout_ms));
        if self.write_flush_mode != WriteFlushMode::Auto {
            out.set_write_flush_mode(Mode(self.write_flush_mode as i32));
        }
        if self.fflush_post_write {
            out.set_fflush_post_write(FFlushMode::FFLUSH_ENABLED);
        }
        match self.compression {
            Compression::None => {}
            Compression::Deflate => out.compression(|out| out.deflate(|_| {})),
            Compression::Zstd { level } => {
                out.compression(|out| {
                    out.zstd(|out| {
                        out.set_level(level);
                    });
                });
            }
        }
        set!(out.set_trace_uuid_msb(self.trace_uuid.0));
        set!(out.set_trace_uuid_lsb(self.trace_uuid.1));
        if !self.trace_attributes.is_empty() {
            out.trace_attributes(|out| {
                for attribute in &self.trace_attributes {
                    out.add_attribute(|out| {
                        out.set_key(&attribute.key);
                        match &attribute.value {
                            Some(TraceAttributeValue::Long(value)) => out.set_long_value(*value),
                            Some(TraceAttributeValue::Text(value)) => out.set_string_value(value),
                            None => out,
                        };
                    });
                }
            });
        }
        set!(out.set_bugreport_score(self.bugreport_score));
        if let Some(name) = &self.bugreport_filename {
            out.set_bugreport_filename(name);
        }
    }
}

impl BufferConfig {
    fn write(&self, out: &mut protos::trace_config::BufferConfig<'_>) {
        use protos::trace_config::buffer_config::{ExperimentalMode, FillPolicy as Policy};
        out.set_size_kb(self.size_kb);
        out.set_fill_policy(match self.fill_policy {
            FillPolicy::Ring => Policy::RING_BUFFER,
            FillPolicy::Discard => Policy::DISCARD,
        });
        set!(out.set_transfer_on_clone(self.transfer_on_clone));
        set!(out.set_clear_before_clone(self.clear_before_clone));
        if let Some(name) = &self.name {
            out.set_name(name);
        }
        out.set_experimental_mode(ExperimentalMode::TRACE_BUFFER_V2);
    }
}

impl DataSourceConfig {
    fn write(&self, out: &mut protos::trace_config::DataSource<'_>) {
        out.config(|out| self.write_config(out));
        for name in &self.producer_name_filter {
            out.add_producer_name_filter(name);
        }
        for regex in &self.producer_name_regex_filter {
            out.add_producer_name_regex_filter(regex);
        }
    }

    /// Writes what the data source itself is told.
    pub(crate) fn write_config(&self, out: &mut protos::DataSourceConfig<'_>) {
        use protos::data_source_config::BufferExhaustedPolicy as Policy;
        out.set_name(&self.name);
        if let Some(index) = self.target_index {
            out.set_target_buffer(u32::try_from(index).unwrap_or(u32::MAX));
        }
        if let Some(name) = &self.target_name {
            out.set_target_buffer_name(name);
        }
        if let Some(policy) = self.exhausted_policy {
            out.set_buffer_exhausted_policy(match policy {
                BufferExhaustedPolicy::Drop => Policy::BUFFER_EXHAUSTED_DROP,
                // Both stalling policies end in a counted drop here; neither aborts the process.
                BufferExhaustedPolicy::Stall | BufferExhaustedPolicy::StallThenDrop => {
                    Policy::BUFFER_EXHAUSTED_STALL_THEN_DROP
                }
            });
        }
        out.as_message_mut().append_raw(&self.source_specific);
    }
}

impl BuiltinDataSources {
    fn write(&self, out: &mut protos::trace_config::BuiltinDataSource<'_>) {
        set!(out.set_disable_clock_snapshotting(self.disable_clock_snapshotting));
        set!(out.set_disable_trace_config(self.disable_trace_config));
        set!(out.set_disable_system_info(self.disable_system_info));
        set!(out.set_disable_service_events(self.disable_service_events));
        if let Some(clock) = self.primary_trace_clock {
            out.set_primary_trace_clock(protos::BuiltinClock(clock as i32));
        }
        set!(out.set_snapshot_interval_ms(self.snapshot_interval_ms));
        set!(out.set_disable_chunk_usage_histograms(self.disable_chunk_usage_histograms));
        set!(out.set_disable_extension_descriptors(self.disable_extension_descriptors));
        set!(out.set_enable_concurrent_session_events(self.enable_concurrent_session_events));
    }
}

impl TriggerConfig {
    fn write(&self, out: &mut protos::trace_config::TriggerConfig<'_>) {
        use protos::trace_config::trigger_config::TriggerMode as Mode;
        out.set_trigger_mode(Mode(self.mode as i32));
        for trigger in &self.triggers {
            out.add_triggers(|out| trigger.write(out));
        }
        set!(out.set_trigger_timeout_ms(self.trigger_timeout_ms));
        set!(out.set_use_clone_snapshot_if_available(self.use_clone_snapshot_if_available));
    }
}

impl Trigger {
    fn write(&self, out: &mut protos::trace_config::trigger_config::Trigger<'_>) {
        out.set_name(&self.name);
        if !self.producer_name_regex.is_empty() {
            out.set_producer_name_regex(&self.producer_name_regex);
        }
        set!(out.set_stop_delay_ms(self.stop_delay_ms));
        set!(out.set_max_per_24_h(self.max_per_24_h));
        set!(out.set_skip_probability(self.skip_probability));
    }
}

#[cfg(all(test, feature = "text-config"))]
mod tests {
    use protozero::HeapBuffered;

    use super::*;

    fn written(config: &TraceConfig) -> Vec<u8> {
        let mut buffer = HeapBuffered::<protos::TraceConfig>::new();
        config.write(&mut buffer.message());
        buffer.to_vec()
    }

    #[test]
    fn what_a_trace_carries_is_read_back_as_the_same_configuration() {
        for text in [
            include_str!("../../tests/configs/every_field.txtpb"),
            include_str!("../../tests/configs/every_notation.txtpb"),
            include_str!("../../tests/configs/shared_memory.txtpb"),
        ] {
            let mut config = TraceConfig::from_text(text).expect("valid");
            for source in &mut config.data_sources {
                // Both stalling policies are written as one.
                if source.exhausted_policy == Some(BufferExhaustedPolicy::Stall) {
                    source.exhausted_policy = Some(BufferExhaustedPolicy::StallThenDrop);
                }
            }
            assert_eq!(TraceConfig::decode(&written(&config)), Ok(config));
        }
    }

    #[test]
    fn nothing_is_written_that_was_not_chosen() {
        assert_eq!(written(&TraceConfig::new()), b"");
    }
}
