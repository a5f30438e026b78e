/** The build cannot succeed however often it is tried: the message is for the owner of the app. */
export class BuildFault extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'BuildFault'
  }
}
