/** Where the file of further programs of a VM is (docs/compute.md), and its limits, which those of the guest's init are. */

export const programsPath = '/etc/mote/programs.json'
export const maxPrograms = 16
export const maxProgramArguments = 128
export const maxProgramVariables = 512
