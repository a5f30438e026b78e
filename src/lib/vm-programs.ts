/**
 * Path of the file in a VM that lists additional programs to run (docs/compute.md), and limits for it that must equal
 * those of the guest's init.
 */

export const programsPath = '/etc/mote/programs.json'
export const maxPrograms = 16
export const maxProgramArguments = 128
export const maxProgramVariables = 512
