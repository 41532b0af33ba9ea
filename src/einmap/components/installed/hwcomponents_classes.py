"""Names of the component classes that hwcomponents packages have, to say which package is missing."""

from __future__ import annotations

_CLASSES = {
    "hwcomponents-adc": """
        ADC array_adc cim_adc cim_array_adc pim_adc pim_array_adc sar_adc
    """,
    "hwcomponents-cacti": """
        Cache DDR3 DRAMDDR3 DRAMHBM2 DRAMHBM3 DRAMHBM4 DRAMLPDDR DRAMLPDDR4 HBM2 HBM3 HBM4 LPDDR LPDDR4 SRAM
    """,
    "hwcomponents-library": """
        Adder AladdinAdder AladdinComparator AladdinCounter AladdinIntMAC AladdinMultiplier AladdinRegister
        albireo_awg albireo_double_mrr albireo_mrr albireo_mzm AlbireoArrayedWaveguideGrating AlbireoDAC
        AlbireoDoubleMicroRingResonator AlbireoLaser AlbireoMachZehnderModulator AlbireoMicroRingResonator
        AlbireoPhotodiode AlbireoStarCoupler AlbireoTIA AtomlayerADC AtomlayerDAC AtomlayerEDRAM
        AtomlayerEDRAMBus AtomlayerInputBufferTransfers AtomlayerRegisterLadder AtomlayerRouter
        AtomlayerShiftAdd BrahmsDAC C2CDAC C2CLadderDAC C2CMultiplier C2CMultiplierPortB Capacitor
        ColonnadeCimLogic ColonnadeCimLogicInputPort ColonnadeRegister Comparator Counter dac_albireo
        DualSidedR2RDAC DualSidedR2RLadderDAC DummyCompute DummyMemory DummyNetwork DummyStorage FormsADC
        FormsDAC IntAdder IntMAC IntMultiplier IsaacADC IsaacChip2ChipLink IsaacDAC IsaacEDRAM IsaacEDRAMBus
        IsaacRouter IsaacRouterSharedByFour IsaacShiftAdd JiaDatapath JiaShiftAdd JiaZeroComparator Multiplier
        NeurramAnalogIntegrator NeurramAnalogSample NeurramShiftAdd NeurramVariablePrecisionADC NewtonADC
        NewtonDAC NewtonEDRAM NewtonEDRAMBus NewtonRouter NewtonShiftAdd R2RDAC R2RLadderDAC RaaamEDRAM
        RaellaFlagRegister RaellaInputBuffer RaellaOutputCenterOffsetCorrect RaellaQuantEDRAM
        RaellaQuantMultiplier Register SmartBufferSRAM TimelyChargingComparator TimelyChip2ChipLink TimelyDTC
        TimelyIAdder TimelyInputOutputBuffer TimelyPSubBuf TimelyTDC TimelyXSubBuf Wire
    """,
    "hwcomponents-neurosim": """
        ADC Adder AdderTree ArrayADC ArrayColDrivers ArrayColumnDrivers ArrayRowDrivers ColDrivers FlipFlop
        IntAdder IntAdderTree MaxPool MemoryCell Mux NANDGate NeuroSimAdder NeuroSimAdderTree NeuroSimArrayADC
        NeuroSimArrayColDrivers NeuroSimArrayColumnDrivers NeuroSimArrayRowDrivers NeuroSimFlipFlop
        NeuroSimMaxPool NeuroSimMemoryCell NeuroSimMux NeuroSimNANDGate NeuroSimNORGate NeuroSimNOTGate
        NeuroSimShiftAdd NORGate NOTGate RowDrivers ShiftAdd
    """,
}
"""Names and aliases by package (hwcomponents-adc 1.0.21, -cacti 1.0.40, -library 1.0.58, -neurosim 1.0.43)."""


def package_of(name: str) -> str | None:
    """The package that has a class of this name, without regard to case, `-` and `_`; None for others."""
    folded = _folded(name)
    return next((p for p, names in _CLASSES.items() if folded in map(_folded, names.split())), None)


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
