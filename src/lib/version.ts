/** The product's own version; the API description has one of its own (0.5.4). */
export const productVersion = '0.1.0'
