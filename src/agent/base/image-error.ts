export class ImageError extends Error {
  readonly code: 'invalid_image' | 'image_not_found' | 'image_too_large' | 'image_unusable'
  constructor(code: ImageError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'ImageError'
    this.code = code
  }
}
