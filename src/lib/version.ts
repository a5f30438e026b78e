/** The product's version. The API description has a version of its own (0.5.4). */
export const productVersion = '0.1.0'
