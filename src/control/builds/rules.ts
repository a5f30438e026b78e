/** What a build gets; it is counted against the room of a host, not against the plan: its time is limited. */
export const buildSize = { vcpus: 1, memoryMib: 1024, diskMib: 8192 } as const
