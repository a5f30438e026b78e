/** The product's version; the API description has a separate one (0.5.4). */
export const productVersion = '0.1.0'
