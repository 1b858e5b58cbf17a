"""Micrometres per pixel, from what a file says of itself; never from the objective's power."""

from collections.abc import Mapping
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from aspirate.core.geometry import MPP_RANGE, Size

_UM_PER = {"m": 1e6, "cm": 1e4, "mm": 1e3, "µm": 1.0, "um": 1.0, "μm": 1.0, "nm": 1e-3, "Å": 1e-4, "pm": 1e-6}


def mpp_in_file(vendor: str, properties: Mapping[str, str], size_px0: Size) -> float | None:
    """OME's physical size before OpenSlide's figure.

    OpenSlide takes a generic TIFF's resolution at its word, but what is meant for a printer (72 per inch
    is 353 µm a pixel) says nothing of the slide: there, a value that cannot be true counts as absent.
    """
    description = properties.get("openslide.comment", "")
    stated = ome_mpp(description, size_px0) if "<OME" in description else None
    if stated is not None:
        return stated
    axes = [properties[key] for key in ("openslide.mpp-x", "openslide.mpp-y") if key in properties]
    if not axes:
        return None
    mpp = sum(map(float, axes)) / len(axes)
    low, high = MPP_RANGE
    return None if vendor == "generic-tiff" and not low <= mpp <= high else mpp


def ome_mpp(xml: str, size_px0: Size) -> float | None:
    """The physical pixel size of the image of that size in OME-XML, None if there is none in a length."""
    try:
        pixels = [node for node in fromstring(xml).iter() if node.tag.rpartition("}")[2] == "Pixels"]
        for node in pixels:
            if (int(node.get("SizeX", 0)), int(node.get("SizeY", 0))) != (size_px0.width, size_px0.height):
                continue
            lengths = [
                float(node.get(f"PhysicalSize{axis}")) * _UM_PER[node.get(f"PhysicalSize{axis}Unit", "µm")]
                for axis in "XY"
                if node.get(f"PhysicalSize{axis}") is not None
            ]
            return sum(lengths) / len(lengths) if lengths else None
    except (ParseError, DefusedXmlException, ValueError, KeyError):
        return None
    return None
