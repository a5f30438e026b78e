/** The guest broke the protocol of its ports: our own init never does, so it is not our init that speaks. */
export class GuestFault extends Error {
  constructor(message: string) {
    super(`the guest broke the protocol of its ports: ${message}`)
    this.name = 'GuestFault'
  }
}
