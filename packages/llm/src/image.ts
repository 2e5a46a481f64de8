/** Pictures of a conversation: what bytes are, and the door through which they become a block. */

export { type AdmitOptions, admitImage, IMAGE_LIMITS, type ImageLimits } from './image/admit.ts'
export { type ImageMediaType, imageTypeOf, otherFormatOf } from './image/signature.ts'
export { type ImageFacts, sniffImage } from './image/sniff.ts'
