"""Programs in every form that people have them -> HloModuleProtos."""
